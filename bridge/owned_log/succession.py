"""Markers: who has taken a slot, one after another, and whose entries count behind them.

Each holder writes a marker first. Behind a marker only its writer's entries count, for every reader alike. Those of an
earlier holder may have waited in a socket while its client went to the later one and was answered there.

One exception: before the first marker that is read all entries count. Compaction keeps only the last marker, and no
holder's entries were stored behind another's (see the package).
"""

import json
from collections.abc import Iterable
from typing import Final, NamedTuple

from bridge.owned_log.batch import Record

MARKER: Final = "s"
"""The key of the record with which a slot is taken: {"v":2, "owner":…}."""
_VERSION: Final = 2


class Holder(NamedTuple):
    """Who took a slot, by its marker."""

    producer: str
    """The name of its Pulsar producer: each taking has its own."""
    owner: str
    """Names its process."""


def marker(owner: str) -> Record:
    """The record with which a process takes a slot."""
    value = {"v": _VERSION, "owner": owner}
    return Record(MARKER, json.dumps(value, separators=(",", ":")).encode())


def _holder(producer: str, value: bytes) -> Holder:
    try:
        return Holder(producer, str(json.loads(value)["owner"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return Holder(producer, producer)  # of a newer version; the producer is all that is known


class Succession:
    """The holders of a slot as far as it has been read."""

    def __init__(self) -> None:
        self.holder: Holder | None = None
        """The latest; None before the first marker."""

    def read(self, producer: str, records: Iterable[Record]) -> list[Record]:
        """The records of the next entry that count, without markers."""
        found = []
        for record in records:
            if record.key != MARKER:
                found.append(record)
            elif record.value is not None:
                self.holder = _holder(producer, record.value)
        return found if self.holder is None or producer == self.holder.producer else []
