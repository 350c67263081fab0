"""One partition of one group in random histories: commits, transactions, deletions, settling, restarts, compaction.

The node is the product's own state on a log that this module keeps. Beside it stands what the offset should be, told by
a list of all that was committed: the last one counts that is plain or of a committed transaction.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from bridge.groups.store.records import (
    Key,
    StoredGroup,
    StoredOffset,
    encode_key,
    encode_offset,
    encode_pending,
    offset_key,
    pending_key,
)
from bridge.groups.store.stored_groups import StoredGroups
from bridge.groups.store.visible import decided_keys, settling, visible
from bridge.storage.visibility import Outcome, Transaction
from bridge.telemetry.metrics import GroupMetrics
from tests.groups.fake_outcomes import transaction

WHERE = ("t", 0)
_PLAIN = transaction(0)
"""Stands for no transaction: all that is plain counts."""


class Wrong(Exception):
    """The node shows another offset than it should."""


@dataclass
class Write:
    """One write on its way, and what it means besides."""

    records: Mapping[Key, bytes | None]
    commits: tuple[Transaction, int] | None = None
    forgets: frozenset[Transaction] | None = None
    settles: Mapping[Transaction, Outcome] | None = None
    """What the node knew when it settled."""


@dataclass
class History:
    """A node, the log, and what should be seen."""

    random: Random
    overtakes: bool = False
    """Settling looks at nothing that is on its way."""
    settles_early: bool = False
    """Settling stores what counts although something is open."""
    loses_place: bool = False
    """A pending offset counts before the plain one, whatever their places."""
    log: list[tuple[Key, bytes | None]] = field(default_factory=list)
    flight: list[Write] = field(default_factory=list)
    truth: dict[Transaction, Outcome] = field(default_factory=lambda: {_PLAIN: Outcome.COMMITTED})
    known: dict[Transaction, Outcome] = field(default_factory=lambda: {_PLAIN: Outcome.COMMITTED})
    settled: dict[Transaction, Outcome] = field(default_factory=lambda: {_PLAIN: Outcome.COMMITTED})
    """What every node knows by what is stored."""
    committed: list[tuple[Transaction, int]] = field(default_factory=list)
    """All that is stored and was not deleted, in the order of the log."""
    numbers: int = 0

    def __post_init__(self) -> None:
        self.node = self._loaded()

    def run(self, steps: int) -> None:
        actions = [
            self.commit, self.commit, self.commit_in_transaction, self.commit_in_transaction, self.store, self.store,
            self.store, self.decide, self.learn, self.settle, self.settle, self.delete, self.restart, self.compact,
        ]  # fmt: skip
        for _ in range(steps):
            self.random.choice(actions)()
            self.check()
        while self.flight:
            self.store()
        self.known |= self.truth
        self.check()

    # ---- what happens ------------------------------------------------------------------------------------------------

    def commit(self) -> None:
        self.numbers += 1
        value = encode_offset(StoredOffset(self.numbers))
        self.flight.append(Write({offset_key("g", *WHERE): value}, (_PLAIN, self.numbers)))

    def commit_in_transaction(self) -> None:
        self.numbers += 1
        still_open = [one for one, outcome in self.truth.items() if outcome is Outcome.OPEN]
        one = self.random.choice([*still_open, transaction(self.numbers)])
        self.truth.setdefault(one, Outcome.OPEN)
        value = encode_pending(StoredOffset(self.numbers), one.slot)
        self.flight.append(Write({pending_key("g", *WHERE, one.identity): value}, (one, self.numbers)))

    def store(self) -> None:
        """The first write on its way is stored."""
        if self.flight:
            write = self.flight.pop(0)
            for record in write.records.items():
                before = self.seen()
                self._put(record)
                if write.settles is not None and self.seen() != before:
                    raise Wrong("settling changed what is seen")
            self._stored(write)

    def decide(self) -> None:
        """Only when the client has all its answers it commits; aborted it may be at any time."""
        one = self.random.choice(list(self.truth))
        if self.truth[one] is Outcome.OPEN:
            has_all = all(write.commits is None or write.commits[0] != one for write in self.flight)
            self.truth[one] = Outcome.COMMITTED if has_all and self.random.random() < 0.7 else Outcome.ABORTED

    def learn(self) -> None:
        """The node hears of a decision."""
        one = self.random.choice(list(self.truth))
        self.known[one] = self.truth[one]

    def settle(self) -> None:
        if self.flight and not self.overtakes:
            return
        outcome = self.outcome
        if self.settles_early:
            outcome = lambda one: Outcome.ABORTED if self.outcome(one) is Outcome.OPEN else self.outcome(one)  # noqa: E731
        records = settling("g", self.group, WHERE, outcome)
        if self.settles_early:
            records = {key: value for key, value in records.items() if not self._is_open(key)}
        if records:
            self.flight.append(Write(records, settles=dict(self.known)))

    def delete(self) -> None:
        """The node asks before how all stands; what is open then stays."""
        if self.random.random() < 0.3:
            self.known |= self.truth
            decided = frozenset(one for one, outcome in self.truth.items() if outcome is not Outcome.OPEN)
            if keys := decided_keys("g", self.group, WHERE, self.outcome):
                self.flight.append(Write(dict.fromkeys(keys), forgets=decided))

    def restart(self) -> None:
        """Another node takes the slot: some of what was on its way is stored, and it knows less, or more."""
        for _ in range(self.random.randint(0, len(self.flight))):
            self.store()
        if self.flight and self.flight[0].settles is not None:  # a large write may be cut
            records = list(self.flight[0].records.items())
            self.log += records[: self.random.randint(1, len(records))]
            self.settled |= self.flight[0].settles
        self.flight.clear()
        heard = {one: outcome for one, outcome in self.truth.items() if self.random.random() < 0.7}
        self.known = heard | self.settled
        self.node = self._loaded()

    def compact(self) -> None:
        """Up to somewhere only the last value of each key is left."""
        until = self.random.randint(0, len(self.log))
        last = {key: place for place, (key, _) in enumerate(self.log[:until])}
        kept = [one for place, one in enumerate(self.log[:until]) if last[one[0]] == place and one[1] is not None]
        self.log = kept + self.log[until:]

    # ---- what is seen ------------------------------------------------------------------------------------------------

    @property
    def group(self) -> StoredGroup:
        return self.node.get(0, "g") or StoredGroup()

    def outcome(self, one: Transaction) -> Outcome:
        return self.known.get(one, Outcome.OPEN)

    def seen(self) -> int | None:
        group = self.group
        if self.loses_place and WHERE in group.pendings and WHERE in group.offsets:
            group = StoredGroup(offsets={}, pendings=group.pendings)
        found = visible(group, WHERE, self.outcome)
        return None if found is None else found.offset

    def should_be(self) -> int | None:
        counting = [number for one, number in self.committed if self.outcome(one) is Outcome.COMMITTED]
        return counting[-1] if counting else None

    def check(self) -> None:
        if self.seen() != self.should_be():
            raise Wrong(f"{self.seen()} instead of {self.should_be()}")

    # ---- within ------------------------------------------------------------------------------------------------------

    def _is_open(self, key: Key) -> bool:
        return key[0] == "pending" and all(one.identity != key[4] for one in self.known)

    def _loaded(self) -> StoredGroups:
        node = StoredGroups(_nothing, _nothing, _nothing, _nothing, GroupMetrics())
        for key, value in self.log:
            node.apply(0, encode_key(key), value, replaying=True)
        return node

    def _put(self, record: tuple[Key, bytes | None]) -> None:
        self.log.append(record)
        self.node.apply(0, encode_key(record[0]), record[1], replaying=False)

    def _stored(self, write: Write) -> None:
        if write.commits is not None:
            one, number = write.commits
            if one is not _PLAIN:  # the last of a transaction is its only one
                self.committed = [each for each in self.committed if each[0] != one]
            self.committed.append((one, number))
        if write.settles is not None:
            self.settled |= write.settles
        if write.forgets is not None:
            self.committed = [each for each in self.committed if each[0] not in write.forgets]


def _nothing(*_: object) -> None:
    """Who is told of what is stored."""
