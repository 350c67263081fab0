"""Records of the owned logs and topics' properties, which the bridge reads back from Pulsar."""

from __future__ import annotations

import json
import struct
from contextlib import suppress
from uuid import UUID

from google.protobuf.message import DecodeError

from bridge import codec
from bridge.apis import consumer_group_describe, describe_groups, offset_fetch, streams_group_describe
from bridge.cli.kop import records as kop
from bridge.cli.kop.judging import Group, Topics, Wanted, judge
from bridge.cluster.membership import record_format
from bridge.cluster.membership.record_fields import InvalidClusterRecord
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
from bridge.cluster.membership.view import ClusterView, Endpoint, NodeRegistration, Sender
from bridge.cluster.membership.view_log import ViewLog
from bridge.errors import BridgeError
from bridge.groups.classic import records as classic
from bridge.groups.consumer.model import ConsumerMember, GroupSnapshot, Pattern, TopicFacts, View
from bridge.groups.epochs.records import CONSUMER, encode_member
from bridge.groups.share import state_records as share
from bridge.groups.store import records as store
from bridge.groups.store.records import BadRecord, StoredGroup, StoredOffset
from bridge.groups.streams import model as streams_model
from bridge.groups.streams import records as streams
from bridge.groups.streams.records import STREAMS
from bridge.groups.streams.snapshot import StreamsSnapshot
from bridge.groups.streams.topology import configure
from bridge.kafka import message
from bridge.kafka.schema import with_defaults
from bridge.owned_log import batch as owned_batch
from bridge.owned_log.succession import MARKER, Succession, marker
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import Position
from bridge.storage import topic_properties
from bridge.storage.names import Names
from tests.cli.kop import kop_log
from tests.fuzz.decoders.pulsar import JSON_WORDS
from tests.fuzz.decoders.target import Input, Target, part, same

_ID = UUID(int=7)
_KEY_WORDS = (b"g/", b"m/", b"o/", b"p/", b"/", b"%C3")

# ---- batches of an owned log -----------------------------------------------------------------------------------------


def check_owned_batch(data: bytes) -> bool:
    """An entry of an owned log: NotABatch, or records that come back when they are packed again."""
    given = Input(data)
    try:
        metadata = pb.MessageMetadata.FromString(given.part())
        records = list(owned_batch.unpack(metadata, memoryview(given.rest())))
    except (DecodeError, owned_batch.NotABatch):
        return False
    again, payload = owned_batch.pack(records)
    same(list(owned_batch.unpack(again, memoryview(payload))), records, "records packed again")
    Succession().read("producer", records)
    return True


def owned_batches() -> list[bytes]:
    """A marker, records, a deletion; compacted."""
    records = [marker("node-1"), owned_batch.Record("g/group", b"value"), owned_batch.Record("g/other", None)]
    metadata, payload = owned_batch.pack(records)
    return [part(_stored(metadata).SerializeToString()) + payload]


def _markers_that_failed() -> list[bytes]:
    values = (b'{"owner":"a","v":Infinity}', b"[" * 1500)
    packed = [owned_batch.pack([owned_batch.Record(MARKER, value)]) for value in values]
    return [part(_stored(metadata).SerializeToString()) + payload for metadata, payload in packed]


def _stored(metadata: pb.MessageMetadata) -> pb.MessageMetadata:
    """With what every entry has."""
    metadata.producer_name, metadata.sequence_id, metadata.publish_time = "p", 1, 1
    return metadata


# ---- groups ----------------------------------------------------------------------------------------------------------


def check_key(data: bytes) -> bool:
    """A record's key: none of ours, or the same when it is written again."""
    key = store.decode_key(data.decode("utf-8", "replace"))
    if key is not None:
        same(store.decode_key(store.encode_key(key)), key, "keys")
    return key is not None


def check_offset(data: bytes) -> bool:
    """A committed offset: none, or one that a client can be told and that is stored again as it is."""
    found = store.decode_offset(data)
    if found is None:
        return False
    same(store.decode_offset(store.encode_offset(found)), found, "offsets")
    told = offset_fetch.ResponsePartition(
        partition_index=0, committed_offset=found.offset, committed_leader_epoch=found.leader_epoch,
        metadata=found.metadata, error_code=0,
    )  # fmt: skip
    message.encode(told, 8, True)
    return True


def check_classic_group(data: bytes) -> bool:
    """A classic group's record: BadRecord, or one that is the same when written, and that DescribeGroups can tell."""
    try:
        found = classic.decode(data)
    except BadRecord:
        return False
    same(classic.decode(classic.encode(found)), found, "records")
    members = [one.restored(found.protocol_name) for one in found.members]
    told = with_defaults(
        describe_groups.Group,
        protocol_type=found.protocol_type or "",
        protocol_data=found.protocol_name or "",
        members=[
            with_defaults(
                describe_groups.Member, member_id=one.id, group_instance_id=one.instance_id, client_id=one.client_id,
                client_host=one.client_host, member_metadata=one.metadata(found.protocol_name or ""),
                member_assignment=one.assignment,
            )
            for one in members
        ],
    )  # fmt: skip
    message.encode(told, 5, True)
    (found.leader or "").encode()
    return True


def check_consumer_group(data: bytes) -> bool:
    """A group of the new protocol and a member of it: BadRecord, or the same when written, and it can be told."""
    given = Input(data)
    stored = StoredGroup(metadata=given.part(), members={"member": given.rest()})
    try:
        found, since = CONSUMER.decode(stored)
    except BadRecord:
        return False
    again = StoredGroup(
        metadata=CONSUMER.encode_group(found, since),
        members={id_: encode_member(one, found.targets.get(id_, {})) for id_, one in found.members.items()},
    )
    same(CONSUMER.decode(again), (found, since), "records")
    _ = found.state, found.wanted(), found.subscribed(), found.assignor()
    for one in found.members.values():
        told = with_defaults(
            consumer_group_describe.Member, member_id=one.id, instance_id=one.instance_id, rack_id=one.rack_id,
            member_epoch=one.epoch, client_id=one.client_id, client_host=one.client_host,
            subscribed_topic_names=sorted(one.topics), subscribed_topic_regex=one.regex,
        )  # fmt: skip
        message.encode(told, 0, True)
    return True


def check_streams_group(data: bytes) -> bool:
    """A streams group and a member of it: BadRecord, or the same when written, and it can be told and configured."""
    given = Input(data)
    stored = StoredGroup(metadata=given.part(), members={"member": given.rest()})
    try:
        found, since = STREAMS.decode(stored)
    except BadRecord:
        return False
    again = StoredGroup(
        metadata=streams.encode_group(found, since),
        members={id_: streams.encode_member(one, found.targets[id_]) for id_, one in found.members.items()},
    )
    same(STREAMS.decode(again), (found, since), "records")
    _ = found.state, found.subscribed()
    if found.topology is not None:
        configure(found.topology, found.partitions_of)
    message.encode(streams_group_describe.described("group", found), 0, True)
    return True


def streams_groups() -> list[bytes]:
    """One with a member that has tasks and gives some up."""
    task = streams_model.Task
    had = streams_model.Tasks(frozenset({task("0", 0), task("0", 1)}), frozenset({task("0", 2)}))
    member = streams_model.StreamsMember(
        "member", "process", "rack", "client", "/10.0.0.1", 300_000, 1, streams_model.Endpoint("host", 80), {"k": "v"},
        7, 6, assigned=had, revoking=streams_model.Tasks(frozenset({task("0", 3)})), since={task("0", 0): 5},
    )  # fmt: skip
    configs = (("cleanup.policy", "compact"),)
    one = streams_model.Subtopology(
        "0", ("orders",), (), ("by-key",), (streams_model.TopicInfo("log", configs=configs),),
        (streams_model.TopicInfo("by-key", 3),), (streams_model.CopartitionGroup((0,), (), (0,)),),
    )  # fmt: skip
    topology = streams_model.Topology(1, (one,))
    there = {"orders": TopicFacts(_ID, 3)}
    group = StreamsSnapshot(7, 7, {"member": member}, {"member": had}, topology, there, 1, 1)
    return [part(streams.encode_group(group, 1_700_000_000_000)) + streams.encode_member(member, had)]


def check_share_state(data: bytes) -> bool:
    """A share partition's state: BadRecord, or the same when it is written again."""
    try:
        found = share.decode(data)
    except BadRecord:
        return False
    same(share.decode(share.encode(found)), found, "states")
    return True


def share_states() -> list[bytes]:
    """A new one, and one with batches."""
    batches = (share.StateBatch(5, 7, share.ACKNOWLEDGED, 1), share.StateBatch(9, 9, share.AVAILABLE, 2))
    return [share.encode(one) for one in (share.ShareState(0), share.ShareState(1, 2, 5, batches, 3, 9))]


def keys() -> list[bytes]:
    """Of each kind."""
    made: list[store.Key] = [
        store.group_key("group/1"),
        store.member_key("group", "member/ü"),
        store.offset_key("group", "orders", 12),
        store.share_key("group", _ID.hex, 12),
    ]
    return [store.encode_key(one).encode() for one in made]


def offsets() -> list[bytes]:
    """With all that may be there."""
    full = StoredOffset(42, 3, "text ü", 1_700_000_000_000, 1_700_000_000_001, _ID.hex)
    return [store.encode_offset(one) for one in (full, StoredOffset(0))]


def classic_groups() -> list[bytes]:
    """An empty one and one with a member."""
    member = classic.MemberRecord("m", "instance", "client", "/10.0.0.1", 45_000, 300_000, b"topics", b"partitions")
    full = classic.GroupRecord(3, "consumer", "range", "m", 1_700_000_000_000, (member,))
    return [classic.encode(one) for one in (full, classic.GroupRecord(0, None))]


def consumer_groups() -> list[bytes]:
    """One with a member."""
    group, member = consumer_parts()
    return [part(group) + member]


def consumer_parts() -> tuple[bytes, bytes]:
    """The group's record, and that of a member that has partitions and gives some up."""
    member = ConsumerMember(
        "member", "instance", "rack", "client", "/10.0.0.1", 300_000, frozenset({"orders"}), "ord.*", "uniform", 7, 6,
        assigned={_ID: frozenset({0, 1})}, revoking={_ID: frozenset({2})},
    )  # fmt: skip
    view = View(
        {"orders": TopicFacts(_ID, 3)},
        {Pattern("ord.*"): frozenset({"orders"}), Pattern("ord.*", "User:a"): frozenset()},
    )
    target = {_ID: frozenset({0, 1})}
    group = GroupSnapshot(7, 7, {"member": member}, view, {"member": target})
    return CONSUMER.encode_group(group, 1_700_000_000_000), encode_member(member, target)


# ---- the cluster -----------------------------------------------------------------------------------------------------


def check_cluster(data: bytes) -> bool:
    """Records of the view log: InvalidClusterRecord, or the same when written; folding them fails never."""
    given = Input(data)
    log, valid, entry = ViewLog(), False, 0
    while raw := given.part():
        entry += 1
        try:
            found = record_format.decode(raw)
        except InvalidClusterRecord:
            continue
        if found is None:
            continue
        valid = True
        same(record_format.decode(record_format.encode(found)), found, "records")
        if isinstance(found, Tick):
            log.start_at(found)
        if not isinstance(found, Heartbeat):
            log.fold(found, Position(1, entry))
    with suppress(InvalidClusterRecord):  # too many members or ids together
        record_format.encode(WholeView(Sender("a", 1), 0, log.view))
    return valid


def cluster_logs() -> list[bytes]:
    """A view, its change, and the records between."""
    node = NodeRegistration("a", 1, 0, (Endpoint("", "host", 9092),), rack="r")
    sender, view = node.sender, ClusterView(100, 0, {0: node}, {"a": 0}, (0, 0), (9, 9), (0,))
    other = NodeRegistration("b", 1, 1, (Endpoint("", "host", 9093),))
    change = ViewDifference(sender, 100, 101, 0, 1, (other,), (0,), {"b": 1}, {1: (0, 1)}, {1: (0,)}, "why")
    log: list[Record] = [
        WholeView(sender, 0, view, "begun"), change, Tick(sender, 101, Position(1, 1), Position(1, 2)),
        Challenge(sender, 2.5), TopicChange("orders", "id", TopicEvent.CREATED), Heartbeat(node, 1.5),
    ]  # fmt: skip
    return [b"".join(part(record_format.encode(one)) for one in log)]


# ---- topics' properties ----------------------------------------------------------------------------------------------


def check_properties(data: bytes) -> bool:
    """A topic's properties, which any client that may administer it in Pulsar can set: read, whatever they say."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return False
    if not isinstance(found, dict):
        return False
    properties = {name: value for name, value in found.items() if isinstance(value, str)}
    starts = topic_properties.log_starts(properties)
    for partition, offset in starts.items():
        struct.pack(">iq", partition, offset)  # as clients are told them
        topic_properties.outdated_log_starts(properties, partition)
    configs = topic_properties.configs(properties)
    struct.pack(">q", topic_properties.max_message_bytes(configs) or 0)
    struct.pack(">qq", *topic_properties.max_timestamp_distances(configs))
    topic_properties.codec(configs)
    topic_properties.entry_format(configs, "pulsar")
    return True


def properties() -> list[bytes]:
    """What the bridge writes, and KoP."""
    kept = topic_properties.with_configs({"retention.ms": "5", "max.message.bytes": "7", "compression.type": "lz4"})
    made = {**kept, **topic_properties.with_log_start(0, 42), "kafkaEntryFormat": "mixed_kafka"}
    return [
        json.dumps(one).encode() for one in (made, made | topic_properties.with_changes(made, {"retention.ms": "6"}))
    ]


# ---- what KoP has left ----------------------------------------------------------------------------------------------


def check_kop_record(data: bytes) -> bool:
    """A record of KoP's groups: BridgeError, or a commit that the table can show and a client can send again."""
    given = Input(data)
    record = codec.Record(0, 0, given.part(), given.rest(), ())
    try:
        found = kop.decode_record(record)
    except BridgeError:
        return False
    if found is not None:
        place, commit = found
        struct.pack(">iq", place.partition, 0 if commit is None else commit.offset)
        (place.group + place.topic + ("" if commit is None else commit.metadata)).encode()
        assert 0 <= kop.group_partition(place.group, 50) < 50
        topics = Topics(Names("public/default"), {"t"}, {("t", 0): (0, 1)})
        judge(place, commit or kop.Commit(0, "", 0, 0), topics, Group(False, {}), Wanted(), 1_700_000_000_000)
    return True


def kop_records() -> list[bytes]:
    """A commit, and a record of a group."""
    key = kop_log.commit_key("group", "persistent://public/default/t", 0)
    return [part(key) + kop_log.commit_value(1, "text"), part(b"\0\2" + kop_log.text("group")) + b"any"]


def _changed(valid: bytes, *changes: tuple[bytes, bytes]) -> list[bytes]:
    """The record with one value after another replaced."""
    assert all(old in valid for old, _ in changes)
    return [valid.replace(old, new, 1) for old, new in changes]


_OFFSETS = _changed(
    offsets()[0], (b'"x":1', b'"x":-1'),
    (b'"o":42', b'"o":Infinity'), (b'"o":42', b'"o":9223372036854775808'), (b'"e":3', b'"e":NaN'),
    (b"text", b"\\ud800"), (b'"text', b'5,"x":"'), (_ID.hex.encode(), b'\\"'), (b"42", b"[" * 1500),
)  # fmt: skip
_CLASSIC = _changed(
    classic_groups()[0], (b":3,", b":1e999,"), (b'"consumer"', b"1.5"), (b'"range"', b"[]"), (b'"client"', b"7"),
    (b"45000", b"Infinity"), (b'"m"', b'"\\ud800"'), (b'"members":', b'"members":{},"others":'),
)  # fmt: skip
_GROUP, _MEMBER = consumer_parts()
_CONSUMER = [
    *(part(one) + _MEMBER for one in _changed(_GROUP, (b'"since":1', b'"since":1e999,"s":1'), (b"orders", b"\\ud800"))),
    *(
        part(_GROUP) + one
        for one in _changed(
            _MEMBER, (b'"state":1', b'"state":[]'), (b'"rack":"rack"', b'"rack":7'), (b"[0,1]", b'"ab"')
        )
    ),
]
_PROPERTIES = [
    json.dumps(one).encode()
    for one in (
        {"kafka.log.start.0." + "9" * 4400: ""},
        {"kafka.log.start.0.9223372036854775808": ""},
        {"kafka.log.start.2147483648.1": ""},
        {"kafka.configs": "[" * 1500},
        {"kafka.configs": '{"max.message.bytes":"99999999999999999999"}'},
    )
]

TARGETS = (
    Target("owned_batches", check_owned_batch, owned_batches, JSON_WORDS, regressions=_markers_that_failed()),
    Target("group_keys", check_key, keys, (*_KEY_WORDS, b"9" * 4400), 8192, [b"o/t/" + b"9" * 4400 + b"/g"]),
    Target("offsets", check_offset, offsets, JSON_WORDS, 8192, _OFFSETS),
    Target("classic_groups", check_classic_group, classic_groups, JSON_WORDS, 8192, _CLASSIC),
    Target("consumer_groups", check_consumer_group, consumer_groups, JSON_WORDS, 8192, _CONSUMER),
    Target("kop_records", check_kop_record, kop_records, (b"\xff\xff", b"\x7f\xff", b"\0\1"), 8192),
    Target("streams_groups", check_streams_group, streams_groups, JSON_WORDS, 8192),
    Target("share_states", check_share_state, share_states, JSON_WORDS, 8192),
    Target("cluster_records", check_cluster, cluster_logs, JSON_WORDS, 8192),
    Target(
        "topic_properties", check_properties, properties,
        (*JSON_WORDS, b"kafka.log.start.", b"kafka.configs", b"kafka.config."), 8192, _PROPERTIES,
    ),
)  # fmt: skip
