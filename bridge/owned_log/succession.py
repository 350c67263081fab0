"""Markers: who has taken a slot, one after another, and whose entries count behind them.

Each holder writes a marker first. Behind a marker only its writer's entries count, for every reader alike. Those of an
earlier holder may have waited in a socket while its client went to the later one and was answered there.

Two exceptions. Before the first marker that is read all entries count: compaction keeps only the last marker, and no
holder's entries were stored behind another's (see the package). And entries of bridges of an older version always
count, for they were acknowledged by that rule.
"""

import json
from collections.abc import Iterable
from typing import Final, NamedTuple

from bridge.owned_log.batch import Record

MARKER: Final = "s"
"""The key of the record with which a slot is taken: {"v":2, "owner":…}."""
_VERSION: Final = 2
"""1: bridges that took slots by fencing, so that two could hold one at once."""


class Holder(NamedTuple):
    """Who took a slot, by its marker."""

    producer: str
    """The name of its Pulsar producer: each taking has its own."""
    owner: str
    """Names its process."""
    older: bool
    """Whether it is a bridge of an older version, which fences other holders."""


def marker(owner: str) -> Record:
    """The record with which a process takes a slot."""
    value = {"v": _VERSION, "owner": owner}
    return Record(MARKER, json.dumps(value, separators=(",", ":")).encode())


def _holder(producer: str, value: bytes) -> Holder:
    try:
        found = json.loads(value)
        return Holder(producer, str(found["owner"]), int(found["v"]) < _VERSION)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return Holder(producer, producer, False)  # of a newer version; the producer is all that is known


class Succession:
    """The holders of a slot as far as it has been read."""

    def __init__(self) -> None:
        self.holder: Holder | None = None
        """The latest; None before the first marker."""
        self._known: dict[str, Holder] = {}

    def read(self, producer: str, records: Iterable[Record]) -> list[Record]:
        """The records of the next entry that count, without markers."""
        found = []
        for record in records:
            if record.key != MARKER:
                found.append(record)
            elif record.value is not None:
                self.holder = self._known[producer] = _holder(producer, record.value)
        return found if self._counts(producer) else []

    def _counts(self, producer: str) -> bool:
        holder, writer = self.holder, self._known.get(producer)
        if holder is None or producer == holder.producer:
            return True
        return holder.older if writer is None else writer.older
