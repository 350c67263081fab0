"""When Pulsar is started again, and after what pauses."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from bridge.standalone.restarts import PulsarHealth, RestartBackoff, full_disk


def test_pauses_grow_and_stop_to_grow() -> None:
    pauses = RestartBackoff()
    now, found = 0.0, []
    for _ in range(10):
        found.append(pauses.next(now))
        now += found[-1] + 5  # and five seconds later it is gone again
    assert found == [0, 1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_after_a_time_of_health_there_is_no_pause_again() -> None:
    pauses = RestartBackoff()
    assert [pauses.next(0.0), pauses.next(5.0), pauses.next(5.0 + 1 + 601)] == [0, 1, 0]


def test_what_is_sick_for_long_will_not_recover() -> None:
    health = PulsarHealth(0.0)
    assert not health.due(9.9)
    found = []
    for at, problem in ((10.0, "x"), (20.0, "x"), (30.0, None), (40.0, "x"), (50.0, "x"), (60.0, "x")):
        assert health.due(at)
        found.append(health.record(at, problem))
    assert found == [False, False, False, False, False, True]


@pytest.mark.parametrize(
    ("megabytes", "free", "full"), [(400, 20, False), (400, 15, True), (100_000, 1001, False), (100_000, 999, True)]
)
def test_a_full_disk_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, megabytes: int, free: int, full: bool
) -> None:
    disk = SimpleNamespace(total=megabytes * 1_000_000, free=free * 1_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: disk)
    expected = f"the disk of {tmp_path} is full: {free} of {megabytes:,} MB are left"
    assert full_disk(tmp_path) == (expected if full else None)
