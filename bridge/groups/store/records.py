"""What the bridge keeps of groups, as keyed messages of a compacted Pulsar topic: keys and values to bytes and back.

    key                              value
    g/<group>                        the group itself; its bytes are the coordinator's
    m/<member, quoted>/<group>       a member of a group of the new consumer protocol, likewise
    o/<topic>/<partition>/<group>    JSON: {"v":1, "o":offset, "e":leader epoch, "m":metadata, "t":time of the commit},
                                     "x":time to expire where the client chose one, "i":the topic's id in hexadecimal
                                     digits, where it has one; times in milliseconds
    p/<topic id>/<partition>/<group> the state of a partition in a share group (`groups.share.states`)
    t/<topic>/<partition>/<producer id>/<epoch>/<n>/<group>
                                     an offset that a transaction commits: the same, and "s":the slot of
                                     `__bridge_transactions` in which the transaction's outcome is recorded

A value that is absent (or empty, which is the same to Pulsar's compaction) deletes the key. The key `s` is the owned
log's own. A topic's name has no slash, so that the group, which may be any text, can stand last. What is of a later
version is left alone.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from urllib.parse import quote, unquote

from bridge.errors import BridgeError
from bridge.kafka.primitives import MAX_STRING
from bridge.storage.visibility import Identity, Transaction

GroupKey: TypeAlias = tuple[Literal["group"], str]
MemberKey: TypeAlias = tuple[Literal["member"], str, str]
OffsetKey: TypeAlias = tuple[Literal["offset"], str, str, int]
PendingKey: TypeAlias = tuple[Literal["pending"], str, str, int, Identity]
ShareKey: TypeAlias = tuple[Literal["share"], str, str, int]
Key: TypeAlias = GroupKey | MemberKey | OffsetKey | PendingKey | ShareKey
"""("group", group id), ("member", group id, member id), ("offset", group id, topic, partition),
("pending", group id, topic, partition, identity of the transaction) or
("share", group id, topic id in hexadecimal digits, partition)."""

_VERSION: Final = 1
_MAX_DIGITS: Final = 19
_HEXADECIMAL: Final = frozenset("0123456789abcdef")


class BadRecord(BridgeError):
    """The stored bytes are no group of ours, or of a newer bridge."""


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """One committed offset."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    committed_at_ms: int = 0
    expires_at_ms: int = -1
    """Only clients before Kafka 2.1 choose it (OffsetCommit v2 to v4); -1: by the setting."""
    topic_id: str = ""
    """The id of the topic that was committed for: one that is made later under its name is another. Empty: unknown."""


class PendingOffset(NamedTuple):
    """An offset that counts if its transaction is committed."""

    transaction: Transaction
    offset: StoredOffset


@dataclass(slots=True)
class Pendings:
    """The pending offsets of one partition, in the order of their places in the group's slot (`visible`)."""

    before: dict[Identity, PendingOffset] = field(default_factory=dict)
    """Those that were stored before the partition's plain offset."""
    after: dict[Identity, PendingOffset] = field(default_factory=dict)
    """And after it."""

    def __bool__(self) -> bool:
        return bool(self.before or self.after)

    def __iter__(self) -> Iterator[PendingOffset]:
        yield from self.before.values()
        yield from self.after.values()


@dataclass(slots=True)
class StoredGroup:
    """What Pulsar has acknowledged of one group."""

    metadata: bytes | None = None
    offsets: dict[tuple[str, int], StoredOffset] = field(default_factory=dict)
    """The plain ones, which are of no transaction, or of one that is settled. What the group has committed tells
    `visible`."""
    members: dict[str, bytes] = field(default_factory=dict)
    pendings: dict[tuple[str, int], Pendings] = field(default_factory=dict)
    """Of partitions that have any."""
    shares: dict[tuple[str, int], bytes] = field(default_factory=dict)
    """The states of a share group's partitions, by topic id and partition; `groups.share.states` reads them."""

    def __bool__(self) -> bool:
        return self.metadata is not None or any((self.offsets, self.members, self.pendings, self.shares))


def group_key(group_id: str) -> GroupKey:
    """The key of a group's own record."""
    return ("group", group_id)


def member_key(group_id: str, member_id: str) -> MemberKey:
    """The key of a member's record."""
    return ("member", group_id, member_id)


def offset_key(group_id: str, topic: str, partition: int) -> OffsetKey:
    """The key of a committed offset."""
    return ("offset", group_id, topic, partition)


def pending_key(group_id: str, topic: str, partition: int, identity: Identity) -> PendingKey:
    """The key of an offset that a transaction commits."""
    return ("pending", group_id, topic, partition, identity)


def share_key(group_id: str, topic_id: str, partition: int) -> ShareKey:
    """The key of a share partition's state; `topic_id`: in hexadecimal digits, without hyphens."""
    return ("share", group_id, topic_id, partition)


def encode_key(key: Key) -> str:
    """The Pulsar message key."""
    if key[0] == "group":
        return f"g/{key[1]}"
    if key[0] == "member":
        return f"m/{quote(key[2], safe='')}/{key[1]}"
    if key[0] == "offset":
        return f"o/{key[2]}/{key[3]}/{key[1]}"
    if key[0] == "share":
        return f"p/{key[2]}/{key[3]}/{key[1]}"
    producer_id, epoch, n = key[4]
    return f"t/{key[2]}/{key[3]}/{producer_id}/{epoch}/{n}/{key[1]}"


def decode_key(text: str) -> Key | None:
    """The key; None for one that is not ours, or of a later version."""
    kind, _, rest = text.partition("/")
    if kind == "g" and _:
        return ("group", rest)
    if kind == "m":
        member, slash, group = rest.partition("/")
        return ("member", group, unquote(member)) if slash else None
    if kind == "o":
        parts = rest.split("/", 2)
        if len(parts) == 3 and _is_number(parts[1], 31):
            return ("offset", parts[2], parts[0], int(parts[1]))
    if kind == "p":
        parts = rest.split("/", 2)
        if len(parts) == 3 and _HEXADECIMAL.issuperset(parts[0]) and _is_number(parts[1], 31):
            return ("share", parts[2], parts[0], int(parts[1]))
    if kind == "t":
        parts = rest.split("/", 5)
        if len(parts) == 6 and all(map(_is_number, parts[1:5], (31, 63, 31, 63))):
            partition, *identity = map(int, parts[1:5])
            return ("pending", parts[5], parts[0], partition, Identity(*identity))
    return None


def _is_number(text: str, bits: int) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS and not int(text) >> bits


def encode_offset(stored: StoredOffset, committed_at_ms: int | None = None, topic_id: str = "") -> bytes:
    """The value of a committed offset, whose time and topic id may be replaced."""
    # by hand, for each commit has one: json's encoder takes a tenth of a commit's time
    more = f',"x":{stored.expires_at_ms}' if stored.expires_at_ms >= 0 else ""
    if topic_id or stored.topic_id:
        more += f',"i":"{topic_id or stored.topic_id}"'
    note = json.dumps(stored.metadata)
    moment = stored.committed_at_ms if committed_at_ms is None else committed_at_ms
    return (f'{{"v":{_VERSION},"o":{stored.offset},"e":{stored.leader_epoch},"m":{note},"t":{moment}{more}}}').encode()


def encode_pending(stored: StoredOffset, slot: int, committed_at_ms: int | None = None, topic_id: str = "") -> bytes:
    """The value of a pending offset; the same may be replaced."""
    return encode_offset(stored, committed_at_ms, topic_id)[:-1] + b',"s":%d}' % slot


def decode_offset(data: bytes) -> StoredOffset | None:
    """The committed offset; None for what is none, or of a later version."""
    try:
        return _offset(parsed(data))
    except (BadRecord, KeyError):
        return None


def decode_pending(data: bytes, identity: Identity) -> PendingOffset | None:
    """The pending offset of a transaction; None for what is none, or of a later version."""
    try:
        value = parsed(data)
        return PendingOffset(Transaction(integer(value["s"], 32), identity), _offset(value))
    except (BadRecord, KeyError):
        return None


def _offset(value: Mapping[str, Any]) -> StoredOffset:
    if value["v"] != _VERSION:
        raise BadRecord("of another version")
    topic_id = text(value.get("i", ""))
    if not _HEXADECIMAL.issuperset(topic_id):
        raise BadRecord("not a topic's id")
    return StoredOffset(
        integer(value["o"]),
        integer(value["e"], 32),
        text(value["m"]),
        integer(value["t"]),
        max(integer(value.get("x", -1)), -1),
        topic_id,
    )


# ---- the values of a record, which clients will be told --------------------------------------------------------------


def parsed(data: bytes) -> dict[str, Any]:
    """The JSON object; BadRecord where there is none."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise BadRecord("not a JSON object")
    return value


def integer(value: object, bits: int = 64) -> int:
    """A signed number of so many bits; BadRecord for anything else."""
    if type(value) is not int or not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise BadRecord(f"not a number of {bits} bits")
    return value


def text(value: object) -> str:
    """A text that a Kafka message can hold: JSON may have half a surrogate pair; BadRecord for anything else."""
    try:
        if isinstance(value, str) and len(value.encode()) <= MAX_STRING:
            return value
    except UnicodeEncodeError:
        pass
    raise BadRecord("not a text")


def optional_text(value: object) -> str | None:
    """The same, or None."""
    return None if value is None else text(value)
