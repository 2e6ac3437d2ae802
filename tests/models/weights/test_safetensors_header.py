"""Headers of safetensors files: what transformers writes is read, what is damaged is said."""

import json

import pytest
import torch
from safetensors.torch import save_file

from hotloop.core.errors import DataError
from hotloop.models.weights.safetensors_header import stored


def test_each_tensor_is_found_where_it_lies(tmp_path):
    path = tmp_path / "model.safetensors"
    tensors = {
        "a.weight": torch.arange(6.0).view(2, 3),
        "b": torch.tensor(3, dtype=torch.int64),
        "c": torch.ones(4, dtype=torch.bfloat16),
        "none": torch.empty(0, 5),
    }
    save_file(tensors, path, metadata={"format": "pt"})
    found = stored(path)
    assert {name: (each.dtype, each.shape) for name, each in found.items()} == {
        "a.weight": ("F32", (2, 3)),
        "b": ("I64", ()),
        "c": ("BF16", (4,)),
        "none": ("F32", (0, 5)),
    }
    whole = path.read_bytes()
    for name, each in found.items():
        held = whole[each.start : each.start + each.bytes]
        assert held == tensors[name].reshape(-1).view(torch.uint8).numpy().tobytes()


def made(tmp_path, header, data=b"\0" * 16, *, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes((length or len(text)).to_bytes(8, "little") + text + data)
    return path


ENTRY = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ({"a": {**ENTRY, "data_offsets": [0, 20]}}, "a ends behind the file's"),
        ({"a": {**ENTRY, "data_offsets": [16, 0]}}, "a has -16 bytes for F32"),
        ({"a": {**ENTRY, "shape": [2, 3]}}, "a has 16 bytes for F32"),
        ({"a": {**ENTRY, "shape": [-2, -2]}}, "a has no dtype, shape and place"),
        ({"a": {**ENTRY, "shape": [True, 4]}}, "a has no dtype, shape and place"),
        ({"a": {**ENTRY, "data_offsets": [0]}}, "a has no dtype, shape and place"),
        ({"a": {**ENTRY, "dtype": 4}}, "a has no dtype, shape and place"),
        ({"a": [1, 2]}, "a has no dtype, shape and place"),
        ({"a": {**ENTRY, "dtype": "F8_E4M3"}}, "stored as F8_E4M3.*before they were quantised"),
        ([1], "a header that holds no names"),
        (b"{not json", "a header that is not JSON"),
        (b'{"a": 1, "a": 2}', "a key stands twice"),
        (b'{"a": NaN}', "NaN is no JSON number"),
        (b"[" * 100_000, "a header that is not JSON"),
        (b"\xff\xfe", "a header that is not JSON"),
    ],
)
def test_a_header_that_lies_is_refused(tmp_path, header, said):
    with pytest.raises(DataError, match=f"model.safetensors.*{said}"):
        stored(made(tmp_path, header))


@pytest.mark.parametrize("length", [0xFFFFFFFFFFFFFFFF, 1 << 40, 1000])
def test_a_header_longer_than_its_file_is_not_read(tmp_path, length):
    with pytest.raises(DataError, match=r"no safetensors file.*fetch it again"):
        stored(made(tmp_path, {"a": ENTRY}, length=length))


def test_a_file_that_is_short_or_gone_is_said(tmp_path):
    (tmp_path / "short").write_bytes(b"abc")
    with pytest.raises(DataError, match=r"short \(3 bytes\) is no safetensors file"):
        stored(tmp_path / "short")
    with pytest.raises(DataError, match=r"cannot read .*gone: No such file"):
        stored(tmp_path / "gone")
