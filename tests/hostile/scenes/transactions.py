"""Abuse of transactions: more partitions, groups and ids than anyone has, made-up epochs."""

from __future__ import annotations

import secrets
from collections import Counter

from bridge.apis import add_offsets_to_txn, add_partitions_to_txn, end_txn, find_coordinator, init_producer_id
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import with_defaults
from bridge.transactions.state import MOST_GROUPS
from tests.apis.wire import Connection, frame
from tests.faults.processes import let_pass
from tests.hostile.scene import Seen, Target, few

_PARTITIONS, _TOPICS, _IDS, _AT_ONCE = 100_000, 40_000, 5000, 100
"""More topics make a request that is too large for its API."""
_TIMEOUT_MS, _TRIES, _PAUSE = 60_000, 100, 0.1


def _begun(connection: Connection) -> tuple[str, int, int]:
    """A transactional id of its own, with its producer id and epoch, as soon as there is a coordinator."""
    name = f"abuse-{secrets.token_hex(4)}"
    wanted = with_defaults(find_coordinator.Request, key=name, key_type=find_coordinator.TRANSACTION)
    for _ in range(_TRIES):
        if not connection.ask(find_coordinator.API, wanted, 3).error_code:
            break
        let_pass(_PAUSE)
    answer = connection.ask(init_producer_id.API, _init(name), 4)
    return name, answer.producer_id, answer.producer_epoch


def _init(name: str) -> init_producer_id.Request:
    return with_defaults(init_producer_id.Request, transactional_id=name, transaction_timeout_ms=_TIMEOUT_MS)


def partitions(target: Target) -> Seen:
    """A transaction that names 100,000 partitions of a topic of one, and 40,000 topics that are not there."""
    indexes, names, codes = few(target, _PARTITIONS, 2000), few(target, _TOPICS, 1000), Counter[int]()
    api = add_partitions_to_txn
    of_one = [api.RequestTopic(name=target.topic, partitions=list(range(indexes)))]
    of_many = [api.RequestTopic(name=f"none-{number}", partitions=[0]) for number in range(names)]
    with Connection(target.plaintext) as connection:
        name, producer_id, epoch = _begun(connection)
        for topics in (of_one, of_many):
            request = with_defaults(
                api.Request, v3_and_below_transactional_id=name, v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=epoch, v3_and_below_topics=topics,
            )  # fmt: skip
            for topic in connection.ask(api.API, request, 3).results_by_topic_v3_and_below:
                codes.update(one.partition_error_code for one in topic.results_by_partition)
    told = ", ".join(f"{found:,} error {code}" for code, found in sorted(codes.items()))
    refused = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INVALID_REQUEST}
    return Seen(told, codes.total() == indexes + names and codes.keys() <= refused)


def groups(target: Target) -> Seen:
    """Offsets of more groups than a transaction may have."""
    api, codes = add_offsets_to_txn, Counter[int]()
    with Connection(target.plaintext) as connection:
        name, producer_id, epoch = _begun(connection)
        for number in range(MOST_GROUPS + 20):
            asked = api.Request(
                transactional_id=name, producer_id=producer_id, producer_epoch=epoch, group_id=f"g-{number}"
            )
            codes[connection.ask(api.API, asked, 3).error_code] += 1
    refused = codes.total() - codes[ErrorCode.NONE]
    return Seen(f"{codes[0]:,} taken, {refused:,} refused", (codes[0], refused) == (MOST_GROUPS, 20))


def ids(target: Target) -> Seen:
    """5,000 transactional ids, each a write, and epochs that nobody was given."""
    count, codes, strange = few(target, _IDS, 1000), Counter[int](), Counter[int]()
    with Connection(target.plaintext, seconds=60) as connection:
        name, producer_id, _ = _begun(connection)
        for first in range(0, count, _AT_ONCE):
            names = [f"{name}-{number}" for number in range(first, first + _AT_ONCE)]
            connection.send_bytes(b"".join(frame(init_producer_id.API, _init(name), 4) for name in names))
            codes.update(connection.receive(init_producer_id.API, 4).error_code for _ in names)
        for epoch in (-(2**15), -1, 32_766, 32_767):
            request = end_txn.Request(
                transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=True
            )
            strange[connection.ask(end_txn.API, request, 3).error_code] += 1
    told = ", ".join(f"{found:,} error {code}" for code, found in sorted(codes.items()))
    are_refused = strange.keys() <= {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH}
    taken = codes.keys() <= {ErrorCode.NONE, ErrorCode.POLICY_VIOLATION}
    return Seen(f"ids: {told}; epochs: error {sorted(strange)}", are_refused and taken)
