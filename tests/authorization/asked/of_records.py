"""Records: written, read, looked up, deleted."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any
from uuid import UUID

from bridge.apis import delete_records, describe_producers, fetch, list_offsets, offset_for_leader_epoch, produce
from bridge.kafka.fetch_messages import BY_ID
from tests.authorization.asked.row import Row
from tests.authorization.world import MISSING, NOWHERE, TOPICS, World
from tests.clients.refusals import batches, records, transactions

ALL = (*TOPICS, *MISSING)
TRANSACTIONAL = 1 << 4
NO_BROKER = 4711
_producers = count(77_000_000)


def _write(batch: bytes, names: Sequence[str] = ALL, **fields: Any) -> Any:
    request = records.write(names[0], batch, **fields)
    for name in names[1:]:
        request.topic_data += records.write(name, batch).topic_data
    return request


def _of_producer(attributes: int = 0) -> bytes:
    """The first batch of a producer that no other has."""
    return batches.plain(producer=next(_producers), epoch=0, sequence=0, attributes=attributes)


def _read(names: Sequence[str]) -> Any:
    request = records.read(names[0])
    for name in names[1:]:
        request.topics += records.read(name).topics
    return request


def _read_by_id(*ids: UUID) -> Any:
    request = _read([""] * len(ids))
    for topic, topic_id in zip(request.topics, ids, strict=True):
        topic.topic_id = topic_id
    return request


def _as_follower(request: Any) -> Any:
    request.replica_id = NO_BROKER
    return request


def _of_all(make: Any, *arguments: Any) -> Any:
    """A request about all topics of what `make` makes for one."""
    request = make(ALL[0], *arguments)
    for name in ALL[1:]:
        request.topics += make(name, *arguments).topics
    return request


def _ids(world: World) -> list[UUID]:
    return [*(world.ids[name] for name in TOPICS), NOWHERE]


PRODUCE, FETCH, FIND = produce.API, fetch.API, list_offsets.API

ROWS = [
    Row(PRODUCE, "batch", lambda w: _write(batches.plain()), since=3),
    Row(PRODUCE, "acks 0, may", lambda w: _write(batches.plain(), TOPICS[:1], acks=0), answers=False),
    Row(PRODUCE, "acks 0, may not", lambda w: _write(batches.plain(), TOPICS, acks=0), answers=False),
    Row(PRODUCE, "idempotent batch", lambda w: _write(_of_producer())),
    Row(PRODUCE, "transactional batch", lambda w: _write(_of_producer(TRANSACTIONAL), transactional_id="mine-txn")),
    Row(PRODUCE, "transactional batch of another's id",
        lambda w: _write(_of_producer(TRANSACTIONAL), transactional_id="other-txn")),
    # CVE-2018-17196: what the batch says decides, not what stands beside it
    Row(PRODUCE, "transactional batch without an id", lambda w: _write(_of_producer(TRANSACTIONAL))),
    Row(PRODUCE, "idempotent batch with a transactional id",
        lambda w: _write(_of_producer(), transactional_id="mine-txn")),
    Row(PRODUCE, "batch with another's transactional id",
        lambda w: _write(batches.plain(), transactional_id="other-txn")),
    Row(FETCH, "by name", lambda w: _read(ALL), since=4),
    Row(FETCH, "by id", lambda w: _read_by_id(*_ids(w)), version=fetch.API.max_version, since=BY_ID),
    Row(FETCH, "as a follower", lambda w: _as_follower(_read(ALL))),
    Row(FIND, "latest", lambda w: _of_all(records.find), since=1),
    Row(offset_for_leader_epoch.API, "epoch 0", lambda w: _of_all(records.epoch, 0), since=2),
    Row(delete_records.API, "none", lambda w: _of_all(records.cut, 0), since=0),
    Row(describe_producers.API, "of partitions", lambda w: _of_all(transactions.producers)),
]  # fmt: skip
