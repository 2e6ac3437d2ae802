from hotloop.machine.measured_choices import Ways


def test_what_a_run_chose_is_what_the_next_one_begins_with(tmp_path):
    first, other = Ways(tmp_path), Ways(tmp_path)
    assert first == {}
    first["8 x 64"] = "mask"
    other["8 x 128"] = "documents"  # a run beside it
    assert Ways(tmp_path) == {"8 x 64": "mask", "8 x 128": "documents"}


def test_a_file_that_is_not_whole_counts_as_absent_and_is_replaced(tmp_path):
    Ways(tmp_path)["8 x 64"] = "mask"
    (path,) = tmp_path.iterdir()
    for text in ('{"schema": 1, "ways": {"8', '{"schema": 2, "ways": {"8 x 64": "mask"}}', "[]"):
        path.write_text(text)
        ways = Ways(tmp_path)
        assert ways == {}
        ways["8 x 32"] = "mask"
        assert Ways(tmp_path) == {"8 x 32": "mask"}


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    ways = Ways(tmp_path / "file")
    ways["8 x 64"] = "mask"
    assert ways == {"8 x 64": "mask"}


def test_what_was_not_measured_is_for_this_run_alone(tmp_path):
    ways = Ways(tmp_path)
    ways.keep("rows", "kernel")
    ways["masked rows"] = "sdpa-cudnn (ms: kernel 0.2, sdpa-cudnn 0.1)"
    assert ways["rows"] == "kernel"
    assert dict(Ways(tmp_path)) == {"masked rows": ways["masked rows"]}
    ways["rows"] = "kernel (ms: kernel 0.1)"
    assert Ways(tmp_path)["rows"] == "kernel (ms: kernel 0.1)"
