"""Marks are signed for one partition of one topic, and nothing else bears the signature."""

from __future__ import annotations

import asyncio
import copy
import secrets

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.errors import StartupError
from bridge.pulsar.pb.PulsarApi_pb2 import MessageMetadata
from bridge.storage.entries import PROPERTY
from bridge.storage.mark_signer import MarkSecret, MarkSigner
from tests.storage.conftest import Bench


def known(value: bytes) -> MarkSecret:
    secret = MarkSecret()
    secret.value = value
    return secret


_PLAIN, _IDEMPOTENT = '{"v":1,"t":5,"b":7}', '{"v":1,"t":5,"b":7,"p":[1,0,4]}'


def signer(partition: str = "t-partition-0", topic_id: bytes = b"1", secret: bytes = b"of all nodes") -> MarkSigner:
    return MarkSigner(known(secret), partition, topic_id)


def stored(mark: str, producer: str = "bridge-1", sequence_id: int = 4) -> MessageMetadata:
    """An entry's metadata as the bridge stores it."""
    metadata = MessageMetadata(sequence_id=sequence_id) if "p" in mark else MessageMetadata()
    metadata.properties.add(key=PROPERTY, value=mark)
    signer().sign(metadata, producer)
    metadata.producer_name, metadata.sequence_id, metadata.publish_time = producer, sequence_id, 0
    return metadata


@pytest.mark.parametrize("mark", [_PLAIN, _IDEMPOTENT])
def test_what_is_signed_is_known_by_all_who_have_the_secret(mark: str) -> None:
    judge = signer()
    assert not judge.has_met_own
    assert judge.has_signed(stored(mark))
    assert judge.has_met_own
    assert not signer(secret=b"another").has_signed(stored(mark))


@pytest.mark.parametrize("mark", [_PLAIN, _IDEMPOTENT])
def test_a_mark_is_of_one_partition_and_one_topic(mark: str) -> None:
    assert not signer("t-partition-1").has_signed(stored(mark))
    assert not signer(topic_id=b"2").has_signed(stored(mark))


@given(st.sampled_from([_PLAIN, _IDEMPOTENT]), st.text(max_size=40), st.text(max_size=20))
def test_nothing_else_bears_a_signature(mark: str, forged: str, signature: str) -> None:
    metadata = stored(mark)
    changed = copy.deepcopy(metadata)
    changed.properties[0].value = forged
    assert not signer().has_signed(changed)
    changed = copy.deepcopy(metadata)
    changed.properties[1].value = signature
    assert not signer().has_signed(changed)
    del changed.properties[1]
    assert not signer().has_signed(changed)
    assert not signer().has_signed(MessageMetadata())


def test_the_mark_of_a_producer_s_batch_is_its_own() -> None:
    """Pulsar's deduplication gives out a name's sequence once; what is said of times is true wherever it stands."""
    copied = stored(_IDEMPOTENT)
    copied.sequence_id = 5
    assert not signer().has_signed(copied)
    copied = stored(_IDEMPOTENT)
    copied.producer_name = "another"
    assert not signer().has_signed(copied)
    copied = stored(_PLAIN)
    copied.sequence_id = 5
    assert signer().has_signed(copied)


async def test_of_nodes_that_start_together_one_makes_the_secret(bench: Bench) -> None:
    topic, transactions = state_topics(bench)
    nodes = [MarkSecret() for _ in range(5)]
    await asyncio.gather(*(node.load(bench.admin, topic, transactions) for node in nodes))
    assert len({node.value for node in nodes}) == 1
    await bench.admin.create_partitioned(transactions, 8)
    late = MarkSecret()
    await late.load(bench.admin, topic, transactions)
    assert late.value == nodes[0].value


async def test_a_secret_that_is_lost_is_not_made_anew_while_there_are_transactions(bench: Bench) -> None:
    topic, transactions = state_topics(bench)
    await bench.admin.create_partitioned(transactions, 8)
    with pytest.raises(StartupError, match=r"marks is gone, .*topics create-partitioned-topic .*marks -p 1 -m key="):
        await MarkSecret().load(bench.admin, topic, transactions)
    await bench.admin.create_partitioned(topic, 1, {"key": "0f" * 32})
    found = MarkSecret()
    await found.load(bench.admin, topic, transactions)
    assert found.value == b"\x0f" * 32


def state_topics(bench: Bench) -> tuple[str, str]:
    """Of the secret and of the transactions, for one test."""
    namespace, name = bench.settings.pulsar.full_namespace, secrets.token_hex(4)
    return f"persistent://{namespace}/{name}-marks", f"persistent://{namespace}/{name}-transactions"
