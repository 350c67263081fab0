"""What must hold of a partition when a run is over, by what the model broker holds."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise

from bridge.storage.append.sequences import SequencePosition
from bridge.storage.read.chunks import is_chunk
from tests.schedules.kafka import LogRecord, log_of
from tests.schedules.producers import RetryingProducer
from tests.schedules.world import World


def check_partition(world: World, topic: str, producers: Iterable[RetryingProducer]) -> list[LogRecord]:
    """Everything below; the records of the partition (its full name in Pulsar)."""
    log = log_of(world, topic)
    check_offsets(world, topic, log)
    for producer in producers:
        check_acknowledged(log, producer)
        check_order(log, producer)
        check_doubles(log, producer)
    return log


def check_offsets(world: World, topic: str, log: list[LogRecord]) -> None:
    """No offset twice, and none left out but where a ledger begins, and those of chunks."""
    stored = world.broker.topic(topic).log
    firsts = {ledger.entries[0].base for ledger in stored.ledgers if ledger.entries}
    chunks = {entry.base for entry in stored.entries if is_chunk(entry.metadata)}
    for before, record in pairwise(log):
        after = before.offset + 1
        while after in chunks and after < record.offset:
            after += 1
        is_new_ledger = record.offset > before.offset and not firsts.isdisjoint(range(after, record.offset + 1))
        dense = record.offset == after or is_new_ledger
        assert dense, f"the model itself is wrong: {before.offset} is followed by {record.offset}"


def check_acknowledged(log: list[LogRecord], producer: RetryingProducer) -> None:
    """What was acknowledged is there, at the offset that was told."""
    at = {record.offset: record.value for record in log}
    values = set(at.values())
    for value, fate in producer.fates.items():
        assert fate.failed or fate.acked_at is not None, f"{producer.name}: {value!r} has no outcome"
        if fate.implied:
            assert value in values, f"{producer.name}: {value!r} is lost, and a later one was acknowledged"
        if fate.acked_at is None:
            continue
        assert value in values, f"{producer.name}: {value!r} was acknowledged at {fate.acked_at} and is lost"
        if fate.acked_at >= 0:
            found = at.get(fate.acked_at)
            assert found == value, f"{producer.name}: {value!r} was acknowledged at {fate.acked_at}, where {found!r} is"


def check_order(log: list[LogRecord], producer: RetryingProducer) -> None:
    """The records of one epoch stand in the order in which they were sent."""
    order = {value: number for number, value in enumerate(producer.fates)}
    last: dict[int, int] = defaultdict(lambda: -1)
    idempotent = any(fate.epochs for fate in producer.fates.values())
    if not idempotent:
        return
    for record in log:
        number = order.get(record.value)
        place = SequencePosition.of_pulsar(record.sequence)
        if number is None or place is None:
            continue
        assert number > last[place.epoch], f"{producer.name}: {record.value!r} stands after a later one"
        last[place.epoch] = number


def check_doubles(log: list[LogRecord], producer: RetryingProducer) -> None:
    """A record of an idempotent producer is there once for each epoch that it was sent under at most; a plain one's as
    often as it was sent."""
    counts = Counter(record.value for record in log)
    for value, fate in producer.fates.items():
        most = len(fate.epochs) or fate.attempts
        assert counts[value] <= most, f"{producer.name}: {value!r} is there {counts[value]} times, {most} at most"
