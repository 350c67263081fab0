"""A start with many transactional ids and many aborted transactions: what it takes, and that readers are told right."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from bridge.owned_log import OwnedLog, Record
from bridge.runtime.futures import gathered
from bridge.storage.visibility import Identity
from bridge.transactions import records
from bridge.transactions.state import Ended, Status, TransactionRecord
from tests.faults.figures import report
from tests.support.bridges import BridgeChild, BridgeThread

TOPIC = "t"
NOW_MS = 1_800_000_000_000
_IN_AN_ENTRY = 500
_IN_A_CALL = 10_000


def _record(number: int, status: Status) -> TransactionRecord:
    """As an id has it that has committed, or a transaction that is about to be aborted."""
    is_open = status is Status.OPEN
    partitions = {("orders", "ab" * 16): ((0, 9),)} if is_open else {}
    groups = frozenset({"copiers"}) if is_open else frozenset[str]()
    ended = Ended(_producer_id(number), 0, "i")
    return TransactionRecord(
        7,
        _producer_id(number),
        1,
        3 + number,
        status,
        1,
        60_000,
        NOW_MS,
        NOW_MS + number,
        ended,
        partitions,
        {},
        groups,
    )


def _producer_id(number: int) -> int:
    return (1 << 50) + 1_000_003 * number


def _stored(count: int) -> Iterator[tuple[str, Record]]:
    """Ids, and aborted transactions of producers of which no id is left; each with the id that tells its slot."""
    for number in range(count):
        name = f"payments-service-{number:06}"
        yield name, Record(records.id_key(name), records.encode(_record(number, Status.COMMITTED)))
        identity = Identity(_producer_id(count + number), 1, 5000)
        value = records.encode_aborted(NOW_MS + number, _record(number, Status.OPEN))
        yield name, Record(records.aborted_key(identity), value)


async def _store(log: OwnedLog, some: list[tuple[str, Record]]) -> None:
    by_slot: defaultdict[int, list[Record]] = defaultdict(list)
    for name, record in some:
        by_slot[log.slot_of(name)].append(record)

    async def write(slot: int, entry: list[Record]) -> None:
        await log.store(slot, entry).done

    entries = [
        (slot, of_slot[at : at + _IN_AN_ENTRY])
        for slot, of_slot in by_slot.items()
        for at in range(0, len(of_slot), _IN_AN_ENTRY)
    ]
    await gathered(write(*one) for one in entries)


def _resident_bytes(child: BridgeChild) -> int:
    text = Path(f"/proc/{child.pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("VmRSS"))


def _first_committed(bootstrap: str) -> list[bytes]:
    """What a reader of committed records gets up to the end."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "isolation.level": "read_committed"})
    partition = TopicPartition(TOPIC, 0, 0)
    consumer.assign([partition])
    _, end = consumer.get_watermark_offsets(partition, 60)
    found = []
    while consumer.position([partition])[0].offset < end:
        record = consumer.poll(60)
        assert record is not None
        if record.error() is None:
            found.append(record.value())
    consumer.close()
    return [value if isinstance(value, bytes) else str(value).encode() for value in found]


@pytest.mark.parametrize(
    "count",
    [
        2000,
        pytest.param(100_000, marks=[pytest.mark.soak, pytest.mark.timeout(900)]),
    ],
)
def test_a_start_with_many_ids_and_many_aborted_transactions(
    count: int,
    bridge_with: Callable[..., BridgeThread],
    bridge_process: Callable[..., BridgeChild],
) -> None:
    first = bridge_with()
    producer = Producer({"bootstrap.servers": first.kafka, "transactional.id": "writer"})
    producer.init_transactions(30)
    for value, is_committed in ((b"committed", True), (b"aborted", False)):
        producer.begin_transaction()
        producer.produce(TOPIC, value, partition=0)
        if is_committed:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    del producer
    first.stop()
    empty = bridge_process()
    assert _first_committed(empty.kafka) == [b"committed"]
    before = _resident_bytes(empty)
    empty.kill()

    filling = bridge_with()
    log = filling.server._own.transactions._feeds.log
    filling.call(log.all_owned())
    wanted = list(_stored(count))
    for at in range(0, len(wanted), _IN_A_CALL):
        filling.call(_store(log, wanted[at : at + _IN_A_CALL]))
    filling.stop()

    began = time.monotonic()
    full = bridge_process()
    started = time.monotonic()
    assert _first_committed(full.kafka) == [b"committed"]
    read = time.monotonic()
    report(
        ids=count,
        aborted=count,
        start_seconds=round(started - began, 1),
        first_committed_fetch_seconds=round(read - started, 1),
        more_mib=round((_resident_bytes(full) - before) / 2**20),
    )
