import json
import os
import random
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.core.digest import digest
from hotloop.core.errors import DataError
from hotloop.core.storage.files import write_folder
from hotloop.core.storage.manifest import (
    MANIFEST,
    check_folder,
    is_plain,
    manifest_check,
    read_json,
    read_manifest,
)

DRAW = random.Random(20261120)
FILES = {"model.bin": [DRAW.randbytes(900)], "state.json": [b'{"step": 7, "loss": 1.5}']}


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound") / "step-7"
    write_folder(folder, FILES)
    return folder


@pytest.fixture
def copy(sound, tmp_path):
    """A folder to be harmed; `sound` itself stays so."""
    return shutil.copytree(sound, tmp_path / "copy")


def rewrite(folder, files=None, **fields):
    """Give a folder a manifest that is not ours but matches its own checksum."""
    manifest = {**json.loads((folder / MANIFEST).read_text()), **fields}
    files = manifest["files"] if files is None else files
    manifest |= {"files": files, "check": manifest_check(files, manifest["generation"])}
    (folder / MANIFEST).write_text(json.dumps(manifest))


# Damage


def test_a_sound_folder(sound):
    assert check_folder(sound) == []
    assert sorted(read_manifest(sound)) == ["check", "files", "generation", "schema"]


def test_500_flipped_bits_are_all_named(copy):
    draw = random.Random(500)
    files = sorted(copy.iterdir())
    sizes = [path.stat().st_size for path in files]
    for _ in range(500):
        (path,) = draw.choices(files, sizes)
        data = path.read_bytes()
        at, bit = draw.randrange(len(data)), draw.randrange(8)
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :])
        (fault,) = check_folder(copy)
        assert path.name in fault, (path.name, at, bit)
        path.write_bytes(data)
    assert check_folder(copy) == []


def test_a_flipped_bit_in_any_byte_of_the_manifest_is_named(copy):
    draw, data = random.Random(0), (copy / MANIFEST).read_bytes()
    for at in range(len(data)):
        changed = data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]
        (copy / MANIFEST).write_bytes(changed)
        (fault,) = check_folder(copy)
        assert MANIFEST in fault, (at, changed[at])


def test_a_torn_or_zeroed_manifest_is_named(copy):
    data = (copy / MANIFEST).read_bytes()
    for length in range(len(data)):
        for tail in (b"", bytes(len(data) - length)):
            (copy / MANIFEST).write_bytes(data[:length] + tail)
            (fault,) = check_folder(copy)
            assert MANIFEST in fault, (length, tail)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "has 899 bytes, its manifest says"),
        (lambda path: path.write_bytes(b""), "has 0 bytes, its manifest says 900"),
        (lambda path: path.write_bytes(path.read_bytes() + b"\0"), "has 901 bytes"),
        (lambda path: path.write_bytes(path.read_bytes()[:600] + bytes(300)), "is damaged: xxh3"),
        (lambda path: path.unlink(), "is missing"),
        (lambda path: (path.unlink(), path.mkdir()), "is not a plain file"),
    ],
    ids=["truncated", "emptied", "longer", "zeroed tail", "missing", "folder"],
)
def test_harm_to_a_file_is_named(copy, change, fault):
    change(copy / "model.bin")
    (found,) = check_folder(copy)
    assert found.startswith("model.bin ")
    assert fault in found


def test_every_broken_file_is_named(copy):
    (copy / "model.bin").unlink()
    (copy / "state.json").write_bytes(b"")
    assert [fault.split()[0] for fault in check_folder(copy)] == ["model.bin", "state.json"]


def test_a_shard_of_another_generation(copy, tmp_path):
    other = {name: [bytes(reversed(b"".join(chunks)))] for name, chunks in FILES.items()}
    write_folder(tmp_path / "other", other)
    assert check_folder(tmp_path / "other") == []
    os.replace(tmp_path / "other" / "model.bin", copy / "model.bin")
    (fault,) = check_folder(copy)
    assert fault.startswith("model.bin is damaged")
    shutil.copy(tmp_path / "other" / MANIFEST, copy / MANIFEST)
    (fault,) = check_folder(copy)
    assert fault.startswith("state.json is damaged")


def test_equal_contents_of_two_writes_differ_in_generation(sound, tmp_path):
    again = write_folder(tmp_path / "again", FILES)
    first = read_manifest(sound)
    assert again["files"] == first["files"]
    assert again["generation"] != first["generation"]


@pytest.mark.parametrize("kind", ["missing", "file", "no manifest"])
def test_what_is_no_folder_of_ours(tmp_path, kind):
    if kind == "file":
        (tmp_path / "a").touch()
    elif kind == "no manifest":
        (tmp_path / "a").mkdir()
    (fault,) = check_folder(tmp_path / "a")
    assert "has no readable MANIFEST.json" in fault
    with pytest.raises(DataError, match=r"has no readable MANIFEST\.json"):
        read_manifest(tmp_path / "a")


# Malice: a manifest is text from outside, and its checksum is no secret


@pytest.mark.parametrize(
    "name",
    [
        "../secret",
        "/etc/passwd",
        "..",
        ".",
        "",
        "a/..",
        "a/b/c",
        "a//b",
        "a\\b",
        "C:secret",
        "a\0b",
    ],
)
def test_names_that_lead_out_are_refused_and_not_looked_at(copy, name):
    secret = copy.parent / "secret"
    secret.write_text("secret")
    rewrite(copy, {name: {"bytes": 6, "xxh3_128": digest("secret")}})
    (fault,) = check_folder(copy)
    assert "is no file in its folder" in fault
    assert repr(name) in fault
    with pytest.raises(DataError):
        read_manifest(copy)


def test_a_file_may_stand_one_folder_deep_and_that_folder_is_no_link(copy):
    inside = copy / "train"
    inside.mkdir()
    (inside / "rows").write_text("rows")
    rewrite(copy, {"train/rows": {"bytes": 4, "xxh3_128": digest("rows")}})
    assert check_folder(copy) == []
    (inside / "rows").write_text("Rows")
    (fault,) = check_folder(copy)
    assert "train/rows is damaged" in fault
    (inside / "rows").write_text("rows")
    inside.rename(copy.parent / "elsewhere")
    inside.symlink_to(copy.parent / "elsewhere")
    assert check_folder(copy) == ["train/rows is not a plain file"]


@pytest.mark.parametrize("target", ["secret", "/dev/zero"])
def test_links_are_not_followed(copy, target):
    (copy.parent / "secret").write_bytes(b"".join(FILES["model.bin"]))
    (copy / "model.bin").unlink()
    (copy / "model.bin").symlink_to(copy.parent / target)
    assert check_folder(copy) == ["model.bin is not a plain file"]


def test_a_pipe_is_not_waited_for(copy):
    (copy / "model.bin").unlink()
    os.mkfifo(copy / "model.bin")
    rewrite(copy, {"model.bin": {"bytes": 0, "xxh3_128": digest()}})
    assert check_folder(copy) == ["model.bin is not a plain file"]


@pytest.mark.parametrize(
    "entry", [None, [], "x", {}, {"bytes": 1}, {"xxh3_128": "x"}, {"bytes": True, "xxh3_128": "x"}]
)
def test_entries_of_a_wrong_form_are_named(copy, entry):
    rewrite(copy, {"model.bin": entry})
    (fault,) = check_folder(copy)
    assert "lacks the size and xxh3-128 of model.bin" in fault


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"schema": 2}, "has schema 2, this version reads 1"),
        ({"schema": None}, "has schema None"),
        ({"generation": 1}, "lacks its list of files"),
        ({"files": []}, "lacks its list of files"),
    ],
)
def test_other_manifests_are_refused(copy, fields, words):
    rewrite(copy, **fields)
    with pytest.raises(DataError, match=words):
        read_manifest(copy)


@given(st.binary(max_size=200))
def test_no_bytes_crash_a_check(sound, data):
    folder = sound.parent / "arbitrary"
    folder.mkdir(exist_ok=True)
    (folder / MANIFEST).write_bytes(data)
    assert len(check_folder(folder)) == 1


# JSON


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "is not valid JSON: Expecting value: line 1 column 1"),
        (b'{"a": 1,\n "b" 2}', "line 2 column 6"),
        (b'{"a": {"b": 1, "c": 2, "b": 3}}', "key stands twice: b"),
        (b'{"a": NaN}', "NaN is no JSON number"),
        (b'{"a": -Infinity}', "-Infinity is no JSON number"),
        (b'{"a": ' + b"9" * 5000 + b"}", "is not valid JSON"),
        (b'{"a": ' + b"[" * 100_000, "is not valid JSON"),
        (b'{"a": "\xff"}', "is not valid JSON"),
        (b"[1]", "must hold one JSON object, not a list"),
        (b"null", "not a NoneType"),
    ],
)
def test_json_that_is_refused_names_file_and_place(tmp_path, text, words):
    (tmp_path / "a.json").write_bytes(text)
    with pytest.raises(DataError, match=r"a\.json ") as caught:
        read_json(tmp_path / "a.json")
    assert words in str(caught.value)


def test_json_that_cannot_be_read(tmp_path):
    with pytest.raises(DataError, match=r"cannot read .*a\.json: No such file"):
        read_json(tmp_path / "a.json")
    with pytest.raises(DataError, match=r"cannot read .*: Is a directory"):
        read_json(tmp_path)


def test_json_with_many_keys_is_read_in_linear_time(tmp_path):
    many = {f"key {number}": number for number in range(50_000)}  # was 20 s when quadratic
    (tmp_path / "a.json").write_text(json.dumps(many))
    assert read_json(tmp_path / "a.json") == many


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_json_from_windows_editors(tmp_path, encoding):
    (tmp_path / "a.json").write_text('{"a": "é"}', encoding=encoding)
    assert read_json(tmp_path / "a.json") == {"a": "é"}


def test_digests():
    # https://github.com/Cyan4973/xxHash/blob/dev/cli/xsum_sanity_check.c (2026-11): XXH3-128 of ""
    assert digest() == "99aa06d3014798d86001c324468d497f"
    assert digest("é", b"a") == digest("é".encode() + b"a") == digest(bytearray("éa".encode()))
    assert digest("a") != digest("b")


def test_plain_names():
    assert all(map(is_plain, ["model.safetensors", "a b", "..a", "é"]))
    assert not any(map(is_plain, [None, 3, "a/"]))
