"""Java's KafkaShareConsumer in a driver: groups, and their members."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path

from tests.apis.wire import unique
from tests.support.driver import Driver
from tests.support.java import KAFKA, NEWER, NEWEST

SOURCES = Path(__file__).parent / "java"
ALL = [KAFKA, NEWER, NEWEST]
"""Whose share consumers are ready."""
_POLL_MS = 1000
_MOST_POLLS = 60


def until(what: str, looks: Callable[[], bool]) -> None:
    """Polls that are not empty for nothing: a lock of 15 s, and a session, end within so many."""
    for _ in range(_MOST_POLLS):
        if looks():
            return
    raise AssertionError(f"{what} did not come")


class Member:
    """One consumer in a driver."""

    _numbers = count()

    def __init__(
        self, driver: Driver, group: Group, mode: str = "explicit", settings: Mapping[str, object] | None = None
    ) -> None:
        self._driver = driver
        self._id = f"member-{next(self._numbers)}"
        driver.call(
            "join", member_id=self._id, group=group.name, topic=group.topic, mode=mode, settings=dict(settings or {})
        )

    def poll(self, ms: int = _POLL_MS) -> list[tuple[int, str, int]]:
        """Offsets, values, and the how many-th delivery it is."""
        return [
            (offset, value, delivery)
            for offset, value, delivery in self._driver.call("poll", member_id=self._id, ms=ms)
        ]

    def first(self) -> list[tuple[int, str, int]]:
        """The first poll that brings any."""
        found: list[tuple[int, str, int]] = []

        def looks() -> bool:
            found.extend(self.poll())
            return bool(found)

        until("records", looks)
        return found

    def say(self, offset: int, type: str = "ACCEPT") -> None:
        self._driver.call("acknowledge", member_id=self._id, offset=offset, type=type)

    def commit(self) -> list[str]:
        """The errors."""
        return list(self._driver.call("commit", member_id=self._id))

    def accept_all(self, polled: list[tuple[int, str, int]]) -> None:
        for offset, _, _ in polled:
            self.say(offset)
        assert self.commit() == []

    def lock_ms(self) -> int:
        """For how long its records are its own, as the last answer said."""
        return int(self._driver.call("lock", member_id=self._id))

    def close(self) -> None:
        self._driver.call("close", member_id=self._id)


class Group:
    """A share group of its own, and a topic, with one partition unless it says more."""

    def __init__(self, driver: Driver, partitions: int = 1, **configs: object) -> None:
        self._driver = driver
        self.name, self.topic = unique("share"), unique("shared")
        driver.call("create", topic=self.topic, partitions=partitions)
        named = {f"share.{name.replace('_', '.')}": value for name, value in configs.items()}
        driver.call("configure", group=self.name, configs={"share.auto.offset.reset": "earliest"} | named)

    def produce(self, *values: str, **how: object) -> None:
        self._driver.call("produce", topic=self.topic, values=values, **how)
