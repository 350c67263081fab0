"""What the bridge keeps of groups, as keyed messages of a compacted Pulsar topic: keys and values to bytes and back.

    key                              value
    g/<group>                        the group itself; its bytes are the coordinator's
    m/<member, quoted>/<group>       a member of a group of the new consumer protocol, likewise
    o/<topic>/<partition>/<group>    JSON: {"v":1, "o":offset, "e":leader epoch, "m":metadata, "t":time of the commit},
                                     "x":time to expire where the client chose one, "i":the topic's id in hexadecimal
                                     digits, where it has one; times in milliseconds

A value that is absent (or empty, which is the same to Pulsar's compaction) deletes the key. The key `s` is the owned
log's own. A topic's name has no slash, so that the group, which may be any text, can stand last. What is of a later
version is left alone.
"""

import json
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias
from urllib.parse import quote, unquote

from bridge.errors import BridgeError

GroupKey: TypeAlias = tuple[Literal["group"], str]
MemberKey: TypeAlias = tuple[Literal["member"], str, str]
OffsetKey: TypeAlias = tuple[Literal["offset"], str, str, int]
Key: TypeAlias = GroupKey | MemberKey | OffsetKey
"""("group", group id), ("member", group id, member id) or ("offset", group id, topic, partition)."""

_VERSION: Final = 1


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


@dataclass(slots=True)
class StoredGroup:
    """What Pulsar has acknowledged of one group."""

    metadata: bytes | None = None
    offsets: dict[tuple[str, int], StoredOffset] = field(default_factory=dict)
    members: dict[str, bytes] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.metadata is not None or bool(self.offsets) or bool(self.members)


def group_key(group_id: str) -> GroupKey:
    """The key of a group's own record."""
    return ("group", group_id)


def member_key(group_id: str, member_id: str) -> MemberKey:
    """The key of a member's record."""
    return ("member", group_id, member_id)


def offset_key(group_id: str, topic: str, partition: int) -> OffsetKey:
    """The key of a committed offset."""
    return ("offset", group_id, topic, partition)


def encode_key(key: Key) -> str:
    """The Pulsar message key."""
    if key[0] == "group":
        return f"g/{key[1]}"
    if key[0] == "member":
        return f"m/{quote(key[2], safe='')}/{key[1]}"
    return f"o/{key[2]}/{key[3]}/{key[1]}"


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
        if len(parts) == 3 and parts[1].isascii() and parts[1].isdecimal():
            return ("offset", parts[2], parts[0], int(parts[1]))
    return None


def encode_offset(stored: StoredOffset, committed_at_ms: int | None = None, topic_id: str = "") -> bytes:
    """The value of a committed offset, whose time and topic id may be replaced."""
    # by hand, for each commit has one: json's encoder takes a tenth of a commit's time
    more = f',"x":{stored.expires_at_ms}' if stored.expires_at_ms >= 0 else ""
    if topic_id or stored.topic_id:
        more += f',"i":"{topic_id or stored.topic_id}"'
    note = json.dumps(stored.metadata)
    moment = stored.committed_at_ms if committed_at_ms is None else committed_at_ms
    return (f'{{"v":{_VERSION},"o":{stored.offset},"e":{stored.leader_epoch},"m":{note},"t":{moment}{more}}}').encode()


def decode_offset(data: bytes) -> StoredOffset | None:
    """The committed offset; None for what is none, or of a later version."""
    try:
        value = json.loads(data)
        if value["v"] != _VERSION:
            return None
        expires, topic_id = int(value.get("x", -1)), str(value.get("i", ""))
        return StoredOffset(int(value["o"]), int(value["e"]), str(value["m"]), int(value["t"]), expires, topic_id)
    except (ValueError, KeyError, TypeError):
        return None
