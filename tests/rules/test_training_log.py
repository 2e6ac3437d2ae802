import csv
import json
from datetime import UTC, datetime

import pytest
from tests.paths import ROOT

from hotloop.cli.main import main
from hotloop.core.errors import DataError
from hotloop.rules.training_log import judge_log

SAMPLE = ROOT / "examples" / "slow" / "log" / "training.jsonl"
START = 1_790_000_000.0


def write(path, records, *, as_csv=False):
    if as_csv:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(records[0]))
            writer.writeheader()
            writer.writerows(records)
    else:
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def epochs(count=10, *, took=2.0, every=5.0, **more):
    return [
        {"epoch": n, "loss": 1.0, "epoch_time": took, "timestamp": START + every * n, **more}
        for n in range(count)
    ]


def test_time_between_the_records_that_none_claims_is_hidden(tmp_path):
    found = judge_log(write(tmp_path / "log.jsonl", epochs()))
    assert (found.moment, found.claim) == ("timestamp", "epoch_time")
    assert (found.wall, found.hidden) == pytest.approx((45.0, 27.0))
    (finding,) = found.diagnosis.findings
    assert finding.rule == "S3 hidden_wall"
    assert finding.severity == "critical"
    assert finding.share == pytest.approx(0.6)
    assert finding.ceiling == pytest.approx(2.5)
    assert finding.evidence["hidden per record"].median == pytest.approx(3.0)


def test_the_records_that_hide_most_are_named_with_their_lines(tmp_path):
    records = epochs(took=4.9)
    for record in records[6:]:
        record["timestamp"] += 20.0  # before the record of epoch 6 something took 20 s
    (finding,) = judge_log(write(tmp_path / "log.jsonl", records)).diagnosis.findings
    assert finding.places[0].line == 7
    assert finding.evidence["most, epoch 6 (line 7)"] == "20.1 s of 25.0 s"
    assert finding.evidence["spread"] == "1 of 9 records hold 80 % of it"


def test_a_log_that_claims_its_time_has_no_finding(tmp_path):
    found = judge_log(write(tmp_path / "log.jsonl", epochs(took=4.95)))
    assert found.diagnosis.findings == []
    assert found.diagnosis.wall == pytest.approx({"claimed": 44.55, "hidden": 0.45})


def iso(n):
    return datetime.fromtimestamp(START + 5 * n, UTC).isoformat()


@pytest.mark.parametrize(
    "record",
    [
        lambda n: {"time": iso(n), "duration": 2},
        lambda n: {"Date": iso(n).replace("T", " "), "took_s": 2},
        lambda n: {"ts": int((START + 5 * n) * 1e3), "epoch_time_ms": 2000},
        lambda n: {"_timestamp": START + 5 * n, "train/epoch_time": 2},
        lambda n: {"elapsed": 5.0 * n + 2, "epoch_time": 2},
        lambda n: {"wall": 5.0 * n + 2, "train_time": 1.5, "val_time": 0.5},
        lambda n: {"step": 100 * n, "timestamp": START + 5 * n, "step_time": 0.02},
        lambda n: {"timestamp": START + 5 * n, "time": 2.0},
    ],
)
@pytest.mark.parametrize("as_csv", [False, True])
def test_the_ways_in_which_loggers_write_times_are_read(tmp_path, record, as_csv):
    path = write(tmp_path / "log", [record(n) for n in range(11)], as_csv=as_csv)
    found = judge_log(path)
    assert found.wall == pytest.approx(50.0)
    assert found.hidden == pytest.approx(30.0)


def test_records_without_a_duration_lie_in_the_time_of_the_next_that_has_one(tmp_path):
    records = []
    for n, record in enumerate(epochs()):
        records += [record, {"epoch": n, "event": "saved", "timestamp": record["timestamp"] + 3}]
    assert judge_log(write(tmp_path / "log.jsonl", records)).hidden == pytest.approx(27.0)


def test_what_lies_between_two_runs_is_nobodys(tmp_path):
    later = epochs()
    for record in later:
        record["timestamp"] += 86_400.0
    found = judge_log(write(tmp_path / "log.jsonl", epochs() + later))
    assert found.breaks == 1
    assert found.wall == pytest.approx(90.0)


def test_a_torn_last_line_is_left_out(tmp_path):
    path = write(tmp_path / "log.jsonl", epochs())
    path.write_text(path.read_text() + '{"epoch": 10, "epo')
    assert len(judge_log(path).intervals) == 9


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no records"),
        ('{"epoch": 1, "loss": 2}\n' * 3, r"no timestamps in 3 records \(epoch, loss\): each"),
        ("epoch,loss\n1,2\n2,1\n", "no timestamps in 2 records"),
        ('{"timestamp": 1790000000}\n{"timestamp": 1790000009}\n', "no record says how long"),
        ('{"a": 1}\nnot json\n{"a": 2}\n', "log:2: expected a JSON object a line"),
        ("\x00\xff", "no timestamps|cannot read|holds no"),
    ],
)
def test_what_is_missing_is_said(tmp_path, text, said):
    path = tmp_path / "log"
    path.write_text(text)
    with pytest.raises(DataError, match=said):
        judge_log(path)


def test_durations_in_other_units_are_refused(tmp_path):
    with pytest.raises(DataError, match="other units"):
        judge_log(write(tmp_path / "log.jsonl", epochs(took=2000.0)))


def test_one_record_is_too_few(tmp_path):
    with pytest.raises(DataError, match="no timestamps in 1"):
        judge_log(write(tmp_path / "log.jsonl", epochs(1)))


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(DataError, match=r"cannot read .*nowhere\.jsonl"):
        judge_log(tmp_path / "nowhere.jsonl")


def test_the_sample_hides_more_than_half_of_its_time(capsys, tmp_path):
    assert main(["doctor", "--log", str(SAMPLE), "--json", str(tmp_path / "found.json")]) == 0
    said = capsys.readouterr()
    assert "of the wall time is hidden" in said.out
    assert "S3 hidden_wall" in said.out
    assert json.loads((tmp_path / "found.json").read_text())["findings"][0]["share"] > 0.5


def test_a_log_stands_alone(capsys):
    assert main(["doctor", "--log", str(SAMPLE), "char-lm"]) == 2
    assert "leave out char-lm" in capsys.readouterr().err
