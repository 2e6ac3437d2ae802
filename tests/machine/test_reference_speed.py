from hotloop.machine.reference_speed import reference_seconds


def test_a_product_has_a_time():
    seconds = reference_seconds()
    assert sorted(seconds) == ["products"]
    assert all(0 < value < 1e3 for value in seconds.values())


def test_the_fastest_of_some_counts():
    # Products of 10, 2 and 50 ms; then the time is over.
    times = iter([0.0, 0.0, 0.010, 0.010, 0.012, 0.012, 0.062, 0.2])
    last = [0.2]

    def clock() -> float:
        last[0] = next(times, last[0] + 0.01)
        return last[0]

    assert abs(reference_seconds(clock)["products"] - 0.002) < 1e-9
