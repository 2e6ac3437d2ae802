from hotloop.diagnosis.checks import data


def test_the_number_of_real_epochs_is_said(case_of):
    assert data.repeated_data(case_of("training.max_steps=76")) is None
    some = data.repeated_data(case_of("training.max_steps=80"))
    assert some.severity == "note"
    many = data.repeated_data(case_of("training.max_steps=4864"))
    assert many.severity == "warn"
    assert many.claim == "4,864 steps read the training text 256 times: once takes 19 steps"
    assert many.remedies[0].text == "training.max_steps=76 reads it 4 times"


def test_text_that_is_never_read_is_said(case_of):
    found = data.unread_data(case_of("training.max_steps=10"))
    assert found.claim.startswith("10 steps read 52.6% of the training text; all of it once")
    assert data.unread_data(case_of("training.max_steps=19")) is None


def test_what_drop_last_costs_is_said(case_of):
    settings = ["data.drop_last=true", "training.batch_size=60"]
    found = data.dropped_windows(case_of(*settings))
    assert found.severity == "warn"
    assert "50 of 110 windows (45%)" in found.claim
    assert data.dropped_windows(case_of("data.drop_last=true")) is None
    assert data.dropped_windows(case_of("training.batch_size=60")) is None


def test_a_batch_that_cannot_be_filled_is_said(case_of):
    assert data.batch_beyond_data(case_of("training.batch_size=110")) is None
    found = data.batch_beyond_data(case_of("training.batch_size=111"))
    assert "training.batch_size=111 is not in effect" in found.claim
    assert "only 110 windows" in found.claim
