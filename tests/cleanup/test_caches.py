import os

import pytest
from tests.cleanup.disks import NOW, environment, temp

from hotloop.cleanup.caches import cache_shelf, others
from hotloop.cleanup.disk_use import CleanupRequest

NAMES = ("0" * 32, "1" * 32)
DAY = 86400.0


@pytest.fixture
def cache(tmp_path):
    """Tokens used 3 and 30 days ago, a forecast used 10 days ago, and what is not ours."""
    own = environment(tmp_path).cache
    for name, days in (("tokens/" + NAMES[0], 3), ("tokens/" + NAMES[1], 30), ("forecasts", 10)):
        (own / name).mkdir(parents=True)
        (own / name / "x").write_bytes(b"x" * 100)
        os.utime(own / name / "x", (NOW - days * DAY,) * 2)
    for name in ("mine", "tokens/mine"):
        (own / name).mkdir()
        (own / name / "precious").write_bytes(b"x" * 7)
    return own


def judged(cache, **asked):
    order = CleanupRequest(environment=environment(cache.parent), now=lambda: NOW, **asked)
    return {item.path.name: item for item in cache_shelf(order).items}


def test_only_what_hotloop_named_is_looked_at(cache):
    items = judged(cache, unused=0.0, broken=True)
    assert set(items) == {*NAMES, "forecasts"}
    assert all(item.goes for item in items.values())
    assert items[NAMES[1]].last_used == NOW - 30 * DAY
    assert items["forecasts"].bytes == 100


def test_a_cache_stays_unless_that_is_asked_for(cache):
    items = judged(cache)
    assert not any(item.goes for item in items.values())
    assert "--caches DAYS" in items["forecasts"].why


@pytest.mark.parametrize(("days", "going"), [(40, 0), (30, 1), (10, 2), (5, 2), (3, 3)])
def test_what_was_not_used_for_so_many_days_goes(cache, days, going):
    items = judged(cache, unused=float(days)).values()
    assert sum(item.goes for item in items) == going
    for item in items:
        assert item.why == f"{'not ' if item.goes else ''}used in the last {days} days"


def test_what_crashed_writers_left_goes_and_what_is_broken_when_asked_for(cache):
    temp(cache / "tokens", "2" * 32)
    temp(cache / "tokens", "3" * 32, pid=os.getpid())
    aside = cache / "tokens" / f"{NAMES[0]}.broken-0123abcd"
    aside.mkdir()
    items = judged(cache)
    assert [name for name, item in items.items() if item.goes] == [
        next(name for name in items if name.startswith(f".tmp-{'2' * 32}"))
    ]
    assert not items[aside.name].goes
    assert judged(cache, broken=True)[aside.name].goes


def test_an_empty_cache_has_nothing(tmp_path):
    order = CleanupRequest(environment=environment(tmp_path))
    assert cache_shelf(order).items == ()


def test_the_caches_of_others_are_added_up_with_their_own_remedy(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    order = CleanupRequest(environment=environment(tmp_path))
    assert list(others(order, pytest.fail)) == []
    hub = order.environment.hub / "datasets--a--b"
    for folder in (hub / "blobs", hub / "snapshots", tmp_path / "inductor"):
        folder.mkdir(parents=True)
    (hub / "blobs" / "0").write_bytes(b"12345")
    (hub / "snapshots" / "a.csv").symlink_to(hub / "blobs" / "0")
    told = []
    found = {cache.name: cache for cache in others(order, told.append)}
    assert set(found) == {"Hugging Face hub", "torch.compile"}
    assert found["Hugging Face hub"].bytes == 5, "a link takes nothing"
    assert "hf cache rm" in found["Hugging Face hub"].how
    assert len(told) == 2
