from tests.report.conftest import session, step, usual

from hotloop.core.events import event_line
from hotloop.report.facts import read_facts
from hotloop.report.figures import Figure, figures, loss_in_words, open_processes


def by_name(path) -> dict[str, Figure]:
    return {figure.name: figure for figure in figures(read_facts(path))}


def test_each_number_says_what_it_rests_on(made):
    found = by_name(made("run", usual(40)))
    said = {name: (figure.shown, figure.rests_on) for name, figure in found.items()}
    assert said["best validation loss"] == ("3.1000 nats", "at step 40, of 1 validation")
    assert said["steps"] == ("40", "of 40; 4.8k tokens")
    assert said["throughput"][0] == "1.2k tokens/s"
    assert "quartiles 1.19k to 1.21k; n = 37 steps" in said["throughput"][1]
    assert "unsteady" not in said["throughput"][1]
    assert said["peak memory"] == ("1 GiB", "of the process; highest of 4 readings")
    assert said["wall time"] == ("5.50 s", "72.7% in steps")
    assert said["MFU"] == ("12.0%", "of 1 GFLOP/s in fp32, measured")


def test_what_is_unknown_says_why_and_has_no_number(made):
    found = by_name(made("run", [], status="running", flops_per_token=None))
    whys = {name: figure.rests_on for name, figure in found.items() if figure.shown == "unknown"}
    assert whys == {
        "best validation loss": "no validation was made",
        "throughput": "no step after the warm-up",
        "peak memory": "the run wrote no memory readings",
        "wall time": "no process has written an event",
        "MFU": "the run does not say what a token costs",
    }
    assert all(found[name].number is None for name in whys)


def test_a_peak_that_was_not_measured_is_not_guessed(made):
    found = by_name(made("run", usual(40), precision="bf16"))
    assert found["MFU"].rests_on == "the peak is unknown: train with --measure-peak"


def test_a_killed_process_makes_the_wall_time_a_least(made):
    path = made("run", [session(), *(step(n, t=1 + n / 10) for n in range(1, 9))])
    assert open_processes(read_facts(path)) == 1
    wall = by_name(path)["wall time"]
    assert wall.shown == "at least 1.80 s"
    assert wall.number is None


def test_unsteady_readings_are_called_so(made):
    assert "unsteady: readings spread by" in by_name(made("run", usual(40, jitter=0.5)))[
        "throughput"
    ].rests_on  # fmt: skip


def test_a_loss_without_a_known_unit_has_none(made):
    run = read_facts(made("run", usual(5), loss_unit=None))
    assert loss_in_words(run, 2.0) == "2.0000"


def judged(*values: float | None) -> list[str]:
    """Return the events of a run whose validations found these."""
    events = [session()]
    for at, value in enumerate(values, 1):
        events.append(step(at, t=at))
        figures = {"macro_f1": value, "accuracy": 0.5}
        events.append(event_line("eval", step=at, t=at, loss=2.0, figures=figures))
    return events


def test_what_the_best_model_is_judged_by_comes_first(made):
    path = made("run", judged(0.2, 0.7, None, 0.6), config={"metric": "macro_f1"})
    first = figures(read_facts(path))[0]
    assert (first.name, first.shown) == ("best macro_f1", "0.7000")
    assert first.rests_on == "at step 2, of 4 validations"


def test_a_run_that_is_judged_by_its_loss_has_no_score(made):
    for config in ({}, {"metric": "f2"}):
        run = read_facts(made(f"run{len(config)}", judged(0.2), config=config))
        assert run.judged_by is None
        assert figures(run)[0].name == "best validation loss"
