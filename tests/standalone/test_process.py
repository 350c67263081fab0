"""Pulsar as a child process, as far as it can be judged without starting one."""

from bridge.standalone.process import has_registration_conflict

LOST = "INFO  ResourceLockImpl - Lock on resource /ledgers/available/127.0.0.1:34525 was invalidated. state Valid"
TAKEN = "INFO  ResourceLockImpl - Successfully re-acquired lock at /ledgers/available/127.0.0.1:34525"
OTHER = "INFO  ResourceLockImpl - Lock on resource /namespace/pulsar/127.0.0.1:48653 was invalidated. state Valid"


def test_a_bookie_that_never_keeps_its_registration_is_noticed() -> None:
    assert has_registration_conflict("\n".join([LOST, TAKEN] * 20))


def test_a_registration_that_is_lost_once_is_none_of_our_business() -> None:
    assert not has_registration_conflict("\n".join([LOST, TAKEN, *[OTHER] * 20]))
    assert not has_registration_conflict("")
