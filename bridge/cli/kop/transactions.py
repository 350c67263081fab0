"""What KoP has aborted: found by one reading of the topics, and stored where all nodes of a bridge follow it.

A bridge goes by what this command has stored, and by nothing that it meets as it reads. So nobody who may write to a
topic can have records left out by what looks like KoP's, or hold up readers by what looks open, once an administrator
has run it. What it goes by itself lies in the topics as KoP would have believed it. Each topic is stored when it is
known: of a run that was stopped a part is done, and the next one does the rest.

What a run finds takes the place of what was stored, but for what it cannot tell any more: KoP's own topics are kept for
days, and another login may see less. What was aborted stays so then.
"""

import asyncio
import re
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Final, NamedTuple

from bridge.access.security_store.store import SecurityStore
from bridge.cli.connected import opened_security
from bridge.cli.kop.outcomes import Outcome, Settled, Snapshots, States
from bridge.cli.kop.reading import read_outcomes, read_snapshots, read_states
from bridge.config import Settings
from bridge.pulsar import Admin, PulsarClient
from bridge.runtime.futures import gathered, loop_time
from bridge.security.left_out import MAX_PARTS, MAX_RUNS, LeftOut
from bridge.security.records import aborted_records
from bridge.storage.names import Names
from bridge.storage.topics.topic import NO_ID, UUID_PROPERTY, topic_id
from bridge.storage.topics.topic_finder import TopicLookup

_AT_ONCE: Final = 4
_MOST_RUNS: Final = 1024 * MAX_RUNS
"""Of all partitions together: all nodes read them at their start and every ten minutes, and hold 64 MiB of them."""
_TELL_SECONDS: Final = 10.0
_UNSURE: Final = "run the command again: what is stored stays so"
THERE: Final = "is so already"


class AbortedRow(NamedTuple):
    """One partition in which something was aborted, or may have been; taken where no reason stands against it."""

    topic: str
    partition: int
    found: Settled
    reason: str = ""
    blind: str = ""
    """Why ends were not to be seen, if so."""
    withdrawn: bool = False
    """Whether something was stored before, and nothing is left out any more."""

    @property
    def remark(self) -> str:
        """What else there is to know."""
        told = ["nothing is left out any more"] if self.withdrawn else []
        if self.found.never_ended:
            told.append(f"{self.found.never_ended} never ended: aborted, as by their time-out")
        if self.found.unknown:
            why = f" ({self.blind})" if self.blind else ""
            told.append(f"the end of {self.found.unknown} is not known{why}: read as if committed")
        return "; ".join(told)


@dataclass
class Aborted:
    """What was found in a namespace."""

    rows: list[AbortedRow]
    partitions: int = 0
    """How many were read."""
    transactions: int = 0
    unreadable: int = 0
    """Entries and records that were passed over."""

    @property
    def refused(self) -> bool:
        """Whether something of it cannot be taken."""
        return any(row.reason not in ("", THERE) for row in self.rows)


class Kop(NamedTuple):
    """What KoP has kept of its transactions."""

    states: States
    snapshots: Snapshots


async def read_kop(client: PulsarClient, admin: Admin, metadata: str, *, always: bool) -> Kop | None:
    """Of its metadata namespace; None where it has coordinated none. `always`: something all the same."""
    states = await read_states(client, admin, metadata)
    if states is None and not always:
        return None
    return Kop(states or States(1), await read_snapshots(client, admin, metadata))


async def find_aborted(settings: Settings, data: str, kop: Kop, topics: str | None, *, dry_run: bool) -> Aborted:
    """Read the partitions of a namespace, and store what is found.

    `topics`: a regular expression of those that are read. StartupError where Pulsar does not answer, or nothing can be
    stored.
    """
    async with opened_security(settings, _UNSURE) as (client, admin, store):
        names = Names(data)
        reading = _Reading(client, admin, store, kop, names, dry_run=dry_run)
        lookup = TopicLookup(client, admin, names)
        for name in sorted(await lookup.names()):
            if topics is None or re.fullmatch(topics, name):
                await reading.read(name, lookup)
        reading.found.unreadable += sum(kop.states.counts.values()) + sum(kop.snapshots.counts.values())
        return reading.found


class _Reading:
    """All topics of a namespace, one after the other, some of the partitions of each at a time."""

    def __init__(
        self, client: PulsarClient, admin: Admin, store: SecurityStore, kop: Kop, names: Names, *, dry_run: bool
    ) -> None:
        self._client = client
        self._admin = admin
        self._store = store
        self._kop = kop
        self._names = names
        self._dry_run = dry_run
        self._entries = 0
        self._told_at = loop_time()
        self._places = asyncio.Semaphore(_AT_ONCE)
        self.found = Aborted([])

    async def read(self, name: str, lookup: TopicLookup) -> None:
        """One topic; nothing where it was deleted meanwhile."""
        there = await lookup.find(name)
        if there is None:
            return
        partitions, properties = there
        rows = await gathered(
            self._partition(name, number, properties, partitions > 0) for number in range(partitions or 1)
        )
        known = topic_id(properties)
        if known is None and not self._dry_run and any(row.found.runs and not row.reason for row in rows):
            known = await lookup.id_of(name, partitions, properties)
        stored = [await self._stored(row, known) for row in rows]
        self.found.rows += [
            row for row in stored if row.found.aborted or row.found.unknown or row.reason or row.withdrawn
        ]

    def _known(self, topic: uuid.UUID | None, partition: int) -> LeftOut:
        """What is stored of a partition."""
        return LeftOut() if topic is None else self._store.left_out(topic.hex, partition) or LeftOut()

    async def _partition(self, name: str, number: int, properties: Mapping[str, str], partitioned: bool) -> AbortedRow:
        async with self._places:
            self.found.partitions += 1
            topic = self._names.partition(name, number, partitioned=partitioned)
            outcomes, blind = await read_outcomes(self._client, self._admin, topic, self._tell)
            kop_s = self._names.partition(name, number, partitioned=True)
            snapshot = self._kop.snapshots.of(kop_s, properties.get(UUID_PROPERTY))
            before = self._known(topic_id(properties), number)
            of_ids = cache(partial(self._kop.states.settles, partition=kop_s))

            def settles(producer_id: int, offset: int) -> Outcome:
                known = Outcome.UNKNOWN if snapshot is None else snapshot.settles(producer_id, offset)
                if known is Outcome.UNKNOWN and not blind:
                    # where ends were not to be seen, the records are not those of the last transaction alone
                    known = of_ids(producer_id)
                return Outcome.ABORTED if known is Outcome.UNKNOWN and offset in before else known

            found = outcomes.settle(settles)
            self.found.transactions += found.transactions
            self.found.unreadable += outcomes.counts["unreadable"] + outcomes.counts["mixed"]
            row = AbortedRow(name, number, found, blind=blind)
            if outcomes.counts["unindexed"]:
                return row._replace(reason="it has records of transactions without an index")
            if len(found.runs) > MAX_RUNS * MAX_PARTS:
                return row._replace(reason=f"more than {MAX_RUNS * MAX_PARTS:,} runs of aborted records")
            return row

    async def _stored(self, row: AbortedRow, topic: uuid.UUID | None) -> AbortedRow:
        """`topic`: its id; None in a dry run where it has none yet."""
        known = self._known(topic, row.partition)
        if row.reason or topic is None or not (row.found.runs or known.parts):
            return row
        if topic == NO_ID:
            return row._replace(reason="the topic has no id, and none can be given")
        if known.runs() == row.found.runs:
            return row._replace(reason=THERE)
        # of a change that was stopped some parts may be missing
        records = aborted_records(topic.hex, row.partition, row.found.runs, max(known.parts, default=-1) + 1)
        if self._store.left_out_runs - known.stored_runs + len(row.found.runs) > _MOST_RUNS:
            return row._replace(reason=f"more than {_MOST_RUNS:,} runs of aborted records in all topics")
        if not self._dry_run:
            await self._store.change_left_out(records)
        return row._replace(withdrawn=not row.found.runs)

    def _tell(self) -> None:
        """What was read is told on standard error, now and then: it may take hours."""
        self._entries += 1
        if self._entries % 1000 == 0 and loop_time() - self._told_at > _TELL_SECONDS:
            self._told_at = loop_time()
            print(f"read: {self._entries:,} entries of {self.found.partitions} partitions", file=sys.stderr, flush=True)
