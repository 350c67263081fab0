"""Which of KoP's commits a bridge takes, and why it does not take the others."""

from collections.abc import Mapping, Set
from datetime import UTC, datetime
from typing import Final, NamedTuple

from bridge.cli.kop.records import Commit, Place
from bridge.storage.names import Names

_LAST_TIME_MS: Final = 253_402_300_799_000
"""Of the year 9999, the last that a date can have."""


class Topics(NamedTuple):
    """The topics that the bridge serves."""

    names: Names
    existing: Set[str]
    bounds: Mapping[tuple[str, int], tuple[int, int]]
    """Of each partition the first offset, and the one behind the last."""


class Group(NamedTuple):
    """How a group stands at the bridge."""

    active: bool
    committed: Mapping[tuple[str, int], int]


class Wanted(NamedTuple):
    """What is asked for beside."""

    forward: bool = False
    """Whether a group that has committed here goes on to a later offset of KoP's."""
    expired: bool = False
    """Whether what has expired counts."""


class Row(NamedTuple):
    """A commit of KoP's: taken where no reason stands against it."""

    place: Place
    commit: Commit
    name: str | None
    """The topic's name in Kafka; None where the bridge does not serve it."""
    here: int | None
    """What the group has committed here."""
    lag: int | None
    reason: str = ""

    @property
    def where(self) -> tuple[str, int]:
        """Topic and partition, as Kafka has them."""
        return self.name or "", self.place.partition


def judge(place: Place, commit: Commit, topics: Topics, group: Group, wanted: Wanted, now_ms: int) -> Row:
    """What becomes of one commit."""
    name = topics.names.kafka(place.topic)
    where = name or "", place.partition
    bounds, here = topics.bounds.get(where), group.committed.get(where)
    lag = None if bounds is None else max(bounds[1] - commit.offset, 0)
    row = Row(place, commit, name, here, lag)
    if bounds is None:
        return row._replace(reason=_not_here(row, topics))
    if here == commit.offset:
        return row._replace(reason="is so already")
    reason = _out_of_bounds(commit.offset, *bounds) or _expiry(commit, wanted, now_ms) or _standing(row, group, wanted)
    return row._replace(reason=reason)


def _not_here(row: Row, topics: Topics) -> str:
    namespace = topics.names.namespace
    if not row.place.topic.startswith(f"persistent://{namespace}/"):
        return f"the topic is not in {namespace}"
    return "the topic has no such partition" if row.name in topics.existing else "there is no such topic"


def _out_of_bounds(offset: int, start: int, end: int) -> str:
    if offset < start:
        return f"below the log's start, {start}"
    return f"beyond the log's end, {end}" if offset > end else ""


def _expiry(commit: Commit, wanted: Wanted, now_ms: int) -> str:
    if wanted.expired or not 0 <= commit.expires_at_ms <= min(now_ms, _LAST_TIME_MS):
        return ""
    when = datetime.fromtimestamp(commit.expires_at_ms // 1000, UTC)
    return f"expired {when:%Y-%m-%d %H:%M}; --expired takes it"


def _standing(row: Row, group: Group, wanted: Wanted) -> str:
    if group.active:
        return "the group is active here"
    if row.here is None:
        return ""
    if row.here > row.commit.offset:
        return f"further on here, at {row.here}"
    return "" if wanted.forward else f"has committed here, {row.here}; --forward takes it"
