import pytest

from hotloop.core.proved_run import data_identity, other_data, other_run, run_identity


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text("lr = 1\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def identity(folder, *words):
    return run_identity(("train.py", *words), folder)


def test_a_run_is_the_same_into_another_folder(folder):
    proved = identity(folder, "--lr", "0.1", "--out", str(folder / "a"), "--data=data/x.txt")
    here = identity(folder, "--lr", "0.1", "--out", str(folder / "b"), "--data=data/y.txt")
    assert proved["arguments"] == "--lr 0.1 --out PATH --data=PATH"
    assert other_run(proved, here) is None


def test_other_arguments_are_named(folder):
    said = other_run(identity(folder, "--lr", "0.1"), identity(folder))
    assert said.startswith("the plan was proved with the arguments --lr 0.1, not none. Each ")


def test_another_state_of_the_script_is_named(folder):
    proved = identity(folder)
    (folder / "train.py").write_text("lr = 2\n")
    assert other_run(proved, identity(folder)).startswith(
        "the plan was proved for another state of train.py. "
    )


def test_another_script_is_named_and_a_module_has_no_file(folder):
    module = run_identity(("-m", "package.train", "--epochs", "3"), folder)
    assert module == {"script": "package.train", "arguments": "--epochs 3"}
    assert other_run(identity(folder, "--epochs", "3"), module).startswith(
        "the plan was proved for train.py, not for package.train. "
    )


def test_a_secret_is_not_kept(folder):
    assert "hunter2" not in str(identity(folder, "--api-key", "hunter2"))


def test_other_data_are_named():
    proved = {"data": data_identity([("Speeches", 1759), ("Lines", None), ("Speeches", 1759)])}
    assert proved["data"] == "Speeches of 1,759 samples and a stream of Lines"
    for same in [("Speeches", 1759)], [("Lines", None)]:
        assert other_data(proved, data_identity(same)) is None
    said = other_data(proved, data_identity([("Speeches", 1760)]))
    assert said.startswith(
        "the plan was proved on Speeches of 1,759 samples and a stream of Lines, not on Speeches "
        "of 1,760 samples. Each technique is still applied "
    )


def test_data_of_which_nothing_is_known_are_compared_with_nothing():
    here = data_identity([("Speeches", 1)])
    assert other_data({"data": ""}, here) is None
    assert other_data({}, here) is None
