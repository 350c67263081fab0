"""A group slot that two nodes hold at once: a model of what makes acknowledged offsets stay.

Pulsar may grant two simultaneous openings with ExclusiveWithFencing, and both may write. Each holder writes a marker
first. What the model shows to be needed, each by failing without it:

* A write is acknowledged when it was read back with no other holder's marker between the own marker and it. A receipt
  proves that it is stored, not that it counts.
* A write behind another holder's marker counts for no reader. It may have waited in a socket while its client went to
  the other holder.
* Before an answer the holder reads on to the end that the log has, and has no answer if it finds another's marker.
"""

import random
from dataclasses import dataclass, field, replace

import pytest


@dataclass(frozen=True)
class Rules:
    read_back: bool = True
    late_writes_count: bool = False
    read_to_the_end: bool = True


@dataclass(frozen=True)
class Entry:
    holder: int
    offset: int | None
    """None: the holder's marker."""
    commit: int = 0


class Holder:
    """A node that believes it holds the slot."""

    def __init__(self, number: int, rules: Rules) -> None:
        self.number, self.rules = number, rules
        self.sent: list[Entry] = [Entry(number, None)]
        """On its way to the broker, in order."""
        self.read_to = 0
        self.offset = 0
        self.acknowledged: set[int] = set()
        self.owner = -1
        """Whose marker came last, of what it has read."""
        self.was_owner = False

    @property
    def is_down(self) -> bool:
        return self.was_owner and self.owner != self.number

    def read(self, log: list[Entry], until: int) -> None:
        while self.read_to < until:
            entry = log[self.read_to]
            self.read_to += 1
            if entry.offset is None:
                self.owner = entry.holder
                self.was_owner |= entry.holder == self.number
            elif entry.holder == self.owner or self.rules.late_writes_count:
                self.offset = entry.offset
                if entry.holder == self.number == self.owner and self.rules.read_back:
                    self.acknowledged.add(entry.commit)


@dataclass
class Slot:
    """The slot, its holders and one client that commits greater offsets all the time."""

    chance: random.Random
    rules: Rules
    log: list[Entry] = field(default_factory=list)
    holders: list[Holder] = field(default_factory=list)
    opened: int = 0
    offset: int = 0
    commits: int = 0
    waiting: tuple[Holder, int, int] | None = None
    """At which holder which commit waits, and its offset."""
    acknowledged: int = 0
    """The greatest offset that the client knows to be committed."""

    def step(self) -> None:
        often = [self.store, self.read, self.commit] * 2
        self.chance.choice([self.open, *often, self.store, self.fetch])()
        if self.waiting and self.waiting[1] in self.waiting[0].acknowledged:
            self.acknowledged = max(self.acknowledged, self.waiting[2])
            self.waiting = None

    def open(self) -> None:
        """Another node is granted the slot; earlier holders are fenced by chance alone."""
        if self.chance.random() < 0.2 or not self.holders:
            self.holders = [holder for holder in self.holders if self.chance.random() < 0.7]
            self.opened += 1
            self.holders.append(Holder(self.opened, self.rules))

    def store(self) -> None:
        """Pulsar stores what a holder has sent."""
        busy = [holder for holder in self.holders if holder.sent]
        if busy:
            holder = self.chance.choice(busy)
            entry = holder.sent.pop(0)
            self.log.append(entry)
            if not self.rules.read_back and entry.offset is not None:
                holder.acknowledged.add(entry.commit)  # by its receipt

    def read(self) -> None:
        if self.holders:
            self.chance.choice(self.holders).read(self.log, self.chance.randint(0, len(self.log)))

    def commit(self) -> None:
        """The client commits; what it waits for it gives up now and then, and asks elsewhere."""
        if self.waiting and self.chance.random() < 0.7:
            return
        ready = [holder for holder in self.holders if holder.was_owner and not holder.is_down]
        if ready:
            holder = self.chance.choice(ready)
            self.commits += 1
            self.offset += 1
            holder.sent.append(Entry(holder.number, self.offset, self.commits))
            self.waiting = (holder, self.commits, self.offset)

    def fetch(self) -> None:
        """The client asks for its offset."""
        ready = [holder for holder in self.holders if holder.was_owner and not holder.is_down]
        if not ready:
            return
        holder = self.chance.choice(ready)
        if self.rules.read_to_the_end:
            holder.read(self.log, len(self.log))
        if not holder.is_down:
            assert holder.offset >= self.acknowledged, f"{self.acknowledged} was acknowledged, {holder.offset} is told"


def _run(seed: int, rules: Rules) -> int:
    slot = Slot(random.Random(seed), rules)
    for _ in range(400):
        slot.step()
    return slot.acknowledged


SEEDS = range(300)


def test_acknowledged_offsets_never_go_back() -> None:
    assert sum(_run(seed, Rules()) for seed in SEEDS) > 1_000  # it is not by acknowledging nothing


@pytest.mark.parametrize(
    "rules",
    [
        replace(Rules(), read_back=False),
        replace(Rules(), late_writes_count=True),
        replace(Rules(), read_back=False, late_writes_count=True),
        replace(Rules(), read_to_the_end=False),
    ],
)
def test_without_any_of_these_rules_they_do(rules: Rules) -> None:
    with pytest.raises(AssertionError, match="was acknowledged"):
        for seed in SEEDS:
            _run(seed, rules)
