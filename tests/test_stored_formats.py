"""What 1.0 stores, byte for byte: every later 1.x reads it (docs/design/stored-formats.md).

Offsets and groups of the new protocol are in tests/groups. What is here is never changed; a new format is added.
"""

from __future__ import annotations

import uuid
from typing import Any, Final, cast

import pytest

from bridge.cluster.membership.racks import Racks
from bridge.cluster.membership.record_format import decode
from bridge.cluster.membership.records import (
    Challenge,
    Heartbeat,
    Record,
    Tick,
    TopicChange,
    TopicEvent,
    ViewDifference,
    WholeView,
)
from bridge.cluster.membership.slots import slot_of
from bridge.cluster.membership.view import ClusterView, Endpoint, NodeRegistration, Sender
from bridge.groups.classic import records as classic_records
from bridge.groups.classic.records import GroupRecord, MemberRecord
from bridge.owned_log import OwnedLog
from bridge.owned_log import Record as LogRecord
from bridge.owned_log.succession import Succession
from bridge.pulsar.pb.PulsarApi_pb2 import MessageMetadata
from bridge.pulsar.types import Entry, Position
from bridge.security.acls import AccessControlEntry, Operation, PatternType, Permission, ResourceType
from bridge.security.quotas.entities import USER, QuotaKey, checked_entity
from bridge.security.records import SecurityState
from bridge.security.sasl.credentials import ScramCredential
from bridge.storage import entries, topic_properties
from bridge.storage.append.producer_ids import id_of
from bridge.storage.append.sequences import SequencePosition
from bridge.storage.mark_signer import MarkSecret, MarkSigner
from bridge.storage.read.batches import ForeignEntries
from bridge.storage.topics.topic import digest_in, name_digest, topic_id
from tests.support.batch_maker import BatchMaker

_ID: Final = "7eb5cde4-7057-8001-8000-000000000000"
_A = Sender("a", 1)
_NODE = NodeRegistration("a", 1, 0, (Endpoint("", "host", 9092),))
_ENTRY = AccessControlEntry(
    ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:alice", "*", Operation.READ, Permission.ALLOW
)
_IN_JSON = (
    b'{"name":"a","incarnation":1,"id":0,"endpoints":[["","host",9092]],"rack":"","weight":1,"state":"up","level":1,'
    b'"software":"","settings":"","since":0}'
)


@pytest.mark.parametrize(
    ("record", "stored"),
    [
        (Heartbeat(_NODE, 12.25), b'{"v":1,"k":"heartbeat","node":' + _IN_JSON + b',"at":12.25}'),
        (
            WholeView(_A, 7, ClusterView(8, 0, {0: _NODE}, {"a": 0}, (0, 0), (8, 5), (0,)), "joined: a"),
            b'{"v":1,"k":"view","sender":["a",1],"base":7,"version":8,"controller":0,"level":1,"members":[' + _IN_JSON
            + b'],"ids":{"a":0},"away":{},"drained":[],"removed":{},"pairs":[[0,8],[0,5]],"slots":"AAE=","groups":[0],'
            b'"reason":"joined: a"}',
        ),
        (
            ViewDifference(_A, 7, 8, 0, 1, removed=(2,), slots={0: (2, 4)}, groups={0: (1,)}, reason="left: b"),
            b'{"v":1,"k":"difference","sender":["a",1],"base":7,"version":8,"controller":0,"level":1,"members":[],'
            b'"removed":[2],"ids":{},"slots":{"0":"AAIABA=="},"groups":{"0":[1]},"reason":"left: b"}',
        ),
        (
            Tick(_A, 8, Position(3, 0), Position(3, 9)),
            b'{"v":1,"k":"tick","sender":["a",1],"version":8,"whole_at":[3,0],"folded_to":[3,9]}',
        ),
        (Challenge(_A, 12.25), b'{"v":1,"k":"challenge","sender":["a",1],"at":12.25}'),
        (
            TopicChange("orders", "", TopicEvent.CREATED),
            b'{"v":1,"k":"topic","name":"orders","id":"","event":"created"}',
        ),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_the_cluster(record: Record, stored: bytes) -> None:
    assert decode(stored) == record


def test_users_permissions_quotas_and_configs_of_groups() -> None:
    state = SecurityState()
    key = "A" * 43 + "="
    for name, value in {
        'user:["SCRAM-SHA-256","alice"]': '{"level":1,"iterations":4096,"salt":"AAAAAAAAAAAAAAAA",'
        f'"stored_key":"{key}","server_key":"{key}"}}',
        'acl:[2,"orders",3,"User:alice","*",3,3]': '{"level":1}',
        'quota:["producer_byte_rate",[["user","alice"]]]': '{"level":1,"value":1024.0}',
        'config:["public/default","orders","share.auto.offset.reset"]': '{"level":1,"value":"earliest"}',
        'aborted:["6ba7b8109dad41d1950700c04fd430c8",3,0]': '{"level":1,"runs":[12,3,5,1]}',
        'secret:["decoys"]': '{"level":1,"secret":"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}',
    }.items():
        state.apply(name, value.encode())
    credential = ScramCredential("SCRAM-SHA-256", bytes(12), bytes(32), bytes(32), 4096)
    assert state.credentials == {("SCRAM-SHA-256", "alice"): credential}
    assert list(state.entries) == [_ENTRY]
    assert state.quotas == {(checked_entity([(USER, "alice")]), QuotaKey.PRODUCE): 1024.0}
    assert state.group_configs == {("public/default", "orders"): {"share.auto.offset.reset": "earliest"}}
    assert state.left_out["6ba7b8109dad41d1950700c04fd430c8", 3].runs() == [(12, 15), (20, 21)]
    assert state.decoy_secret == b"0123456789abcdef0123456789abcdef"
    assert not state.unknown


def group_log() -> OwnedLog:
    nothing = cast(Any, None)
    log = OwnedLog(
        nothing, nothing, "t", nothing, slots=8, owner="", compact_after=1, max_pending_bytes=1, metrics=nothing
    )
    log.slots = [nothing] * 8
    return log


def test_a_classic_group() -> None:
    stored = (
        b'{"v":1,"generation":3,"type":"consumer","protocol":"range","leader":"m","since":77,"members":[{"id":"m",'
        b'"instance":null,"client":"c","host":"/10.0.0.1","session":45000,"rebalance":300000,"subscription":"AAE=",'
        b'"assignment":"AQ=="}]}'
    )
    member = MemberRecord("m", None, "c", "/10.0.0.1", 45_000, 300_000, b"\0\1", b"\1")
    assert classic_records.decode(stored) == GroupRecord(3, "consumer", "range", "m", 77, (member,))


def test_who_holds_a_slot() -> None:
    found = Succession()
    found.read("producer", [LogRecord("s", b'{"v":2,"owner":"bridge-1"}')])
    assert found.holder == ("producer", "bridge-1")


def test_properties_of_a_topic() -> None:
    properties = {"kafka.configs": '{"retention.ms":"5"}', "kafka.log.start.1.42": "", "kafkaTopicUUID": _ID}
    assert topic_properties.configs(properties) == {"retention.ms": "5"}
    changed = {"kafka.configs": ' {"retention.ms":"6"}', "kafka.config.retention.ms": '"6"', "kafka.config.a": "null"}
    assert topic_properties.with_changes({"kafka.configs": '{"a":"1","retention.ms":"5"}'}, {"retention.ms": "6"}) == (
        changed
    )
    assert topic_properties.configs({**changed, "kafka.configs": ' {"a":"1"}'}) == {"retention.ms": "6"}
    assert topic_properties.log_starts(properties) == {1: 42}
    assert str(topic_id(properties)) == _ID
    assert digest_in(uuid.UUID(_ID)) == name_digest("orders")


def test_marks_of_entries() -> None:
    secret = MarkSecret()
    secret.value = bytes(32)
    signer = MarkSigner(secret, "persistent://public/default/orders-partition-0", b"id")
    metadata = MessageMetadata(producer_name="bridge-1", sequence_id=4)
    metadata.properties.add(key="kafka.batch", value='{"v":1,"p":[1,0,4]}')
    metadata.properties.add(key="kafka.batch.signature", value="2c6f32a876f3d955")
    assert signer.has_signed(metadata)


def test_a_record_in_chunks() -> None:
    secret = MarkSecret()
    secret.value = bytes(32)
    signer = MarkSigner(secret, "persistent://public/default/orders-partition-0", b"id")
    maker = BatchMaker(1000, strangers=ForeignEntries("orders", signer, lambda: None))
    headers = [("kafka.batch", "mine"), ("n", "base64:!"), ("b", "base64:/w==")]
    chunks: list[tuple[str, str, str, list[tuple[str, str]]]] = [
        ("bridge-1", '{"v":1,"t":-1,"b":0,"c":["5ab7",0]}', "afa54da34377f7ed", []),
        ("kafka-producer-1", '{"v":1,"t":7,"b":0,"e":1,"p":[1,0,4],"c":["5ab7",1]}', "091df0e08e66f51a", headers),
    ]
    made = []
    for number, (producer, mark, signature, own) in enumerate(chunks):
        metadata = MessageMetadata(
            producer_name=producer, sequence_id=4, publish_time=9, partition_key="/w==", event_time=7,
            partition_key_b64_encoded=True, uuid="5ab7", chunk_id=number, num_chunks_from_msg=2, total_chunk_msg_size=4,
            uncompressed_size=4,
        )  # fmt: skip
        for name, text in [("kafka.batch", mark), ("kafka.batch.signature", signature), *own]:
            metadata.properties.add(key=name, value=text)
        assert signer.has_signed(metadata) and entries.is_marked_chunk(metadata)
        made.append(maker.make(Entry(Position(1, number), number, None, metadata, memoryview(b"ab"), 2)))
    assert made[0].kafka() == b""
    assert entries.producer_of(metadata) == (1, 0, 4)
    (record,) = entries.records_of(made[1].kafka())
    assert (record.offset, record.timestamp, record.key, record.value) == (1, 7, b"\xff", b"abab")
    assert list(record.headers) == [(b"kafka.batch", b"mine"), (b"n", None), (b"b", b"\xff")]


def test_places_that_all_versions_find() -> None:
    """Names and hashes: another result is another place."""
    assert SequencePosition(3, 1, 7).to_pulsar() == 422_214_612_549_639
    assert id_of(Position(7, 3)) == 7 << 24 | 3
    assert slot_of("orders", 0, 4096) == 3566
    racks = Racks({0: "a", 1: "b", 2: "b", 3: "b"}, {"a": (0,), "b": (1, 2, 3)})
    assert [racks.reader("b", slot, owner=0) for slot in range(6)] == [1, 2, 1, 2, 3, 3]
    assert group_log().slot_of("orders-group") == 6
