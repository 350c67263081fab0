"""What the bridge keeps of transactions, as keyed messages of a compacted Pulsar topic: to bytes and back.

    key                              value, in JSON
    t/<transactional id>             {"v":1, "r":revision, "p":producer id, "e":epoch, "n":n, "s":status, "k":protocol,
                                     "m":time-out, "b":begun, "u":changed, "l":[producer id, epoch, how], "w":…, "f":…,
                                     "g":…}; "l" is absent where nobody knows the epoch before
    a/<producer id>/<epoch>/<n>      an aborted transaction: {"v":1, "t":decided, "w":…, "g":…}
    A/<producer id>/<epoch>/<block>  1,024 transactions of protocol 1, some of them aborted: {"v":1, "t":the last one
                                     decided, "x":their bits in base64, "w":…, "g":…}; bit i: n is 1,024 × block + i
    A/<producer id>/-/<block>        the same of protocol 2: bit i: the epoch is 1,024 × block + i

    "w"                              partitions: [[topic, topic id, [[first, last], …]], …]
    "f"                              an offset at or below the first one: [[topic id, partition, offset], …]
    "g"                              groups: [group, …]

Times are in milliseconds. A value that is absent (or empty, which is the same to Pulsar's compaction) deletes the key.
The key `s` is the owned log's own. A transactional id may be any text, and so stands last.

What is of a later version is left alone and read as None: `outcomes` says how it is kept from looking committed.
"""

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from sys import intern
from typing import Any, Final, NamedTuple, TypeAlias

from bridge.errors import BridgeError
from bridge.kafka.primitives import MAX_STRING
from bridge.storage.visibility import Identity
from bridge.transactions import ranges
from bridge.transactions.ranges import Ranges
from bridge.transactions.state import INITIALIZED, Ended, Status, TransactionRecord

BLOCK_SIZE: Final = 1024
_BITMAP_BYTES: Final = BLOCK_SIZE // 8
_VERSION: Final = 1
_HEXADECIMAL: Final = frozenset("0123456789abcdef")
_NO_PARTITIONS: Final[Mapping[tuple[str, str], Ranges]] = {}
_NO_FIRSTS: Final[Mapping[tuple[str, int], int]] = {}
"""Shared by the many records that name none, as ids are that have no open transaction."""
_ABORTED: Final = re.compile(rb'\{"v":%d,"t":(0|[1-9]\d{0,17}),(.*)' % _VERSION, re.DOTALL)
_ALL_REST: Final = (1 << 64) - 1
_HOW: Final = frozenset({Status.COMMITTED, Status.ABORTED, INITIALIZED})


class IdKey(NamedTuple):
    """The key of a transactional id's record."""

    transactional_id: str


class AbortedKey(NamedTuple):
    """The key of an aborted transaction."""

    identity: Identity


class BlockKey(NamedTuple):
    """The key of the aborted transactions of a block."""

    producer_id: int
    epoch: int | None
    """None: of protocol 2, of which the block holds epochs."""
    block: int

    def identity(self, bit: int) -> Identity:
        """The transaction that a bit stands for."""
        place = BLOCK_SIZE * self.block + bit
        if self.epoch is None:
            return Identity(self.producer_id, place, 0)
        return Identity(self.producer_id, self.epoch, place)


Key: TypeAlias = IdKey | AbortedKey | BlockKey


@dataclass(frozen=True, slots=True)
class Named:
    """What aborted transactions may have left something in: until that is gone they must be known."""

    partitions: Mapping[tuple[str, str], Ranges]
    groups: frozenset[str]


@dataclass(frozen=True, slots=True)
class AbortedRecord:
    """The value of an aborted transaction, or of a block of them."""

    decided_ms: int
    named: Named
    bitmap: bytes = b""
    """Of a block: bit i is that of the value 1 << i % 8 in byte i // 8."""


class _BadRecord(BridgeError):
    """The stored bytes are no record of ours, or of a later version."""


# ---- keys ------------------------------------------------------------------------------------------------------------


def id_key(transactional_id: str) -> str:
    """The key of a transactional id's record."""
    return f"t/{transactional_id}"


def aborted_key(identity: Identity) -> str:
    """The key of an aborted transaction."""
    return f"a/{identity.producer_id}/{identity.epoch}/{identity.n}"


def block_of(identity: Identity) -> tuple[BlockKey, int]:
    """The block of a transaction, and the bit in it that stands for it."""
    if identity.n:
        block, bit = divmod(identity.n, BLOCK_SIZE)
        return BlockKey(identity.producer_id, identity.epoch, block), bit
    block, bit = divmod(identity.epoch, BLOCK_SIZE)
    return BlockKey(identity.producer_id, None, block), bit


def block_key(key: BlockKey) -> str:
    """The key of a block."""
    return f"A/{key.producer_id}/{'-' if key.epoch is None else key.epoch}/{key.block}"


def encode_key(key: AbortedKey | BlockKey) -> str:
    """The key of one or the other."""
    return block_key(key) if isinstance(key, BlockKey) else aborted_key(key.identity)


def parse_key(text: str) -> Key | None:
    """The key; None for one that is not ours, or of a later version."""
    kind, slash, rest = text.partition("/")
    if kind == "t" and slash:
        return IdKey(rest)
    parts = rest.split("/")
    if kind not in ("a", "A") or len(parts) != 3:
        return None
    producer_id, epoch, last = _number(parts[0]), _number(parts[1], 16), _number(parts[2])
    if producer_id is None or last is None:
        return None
    if kind == "A":
        return BlockKey(producer_id, epoch, last) if epoch is not None or parts[1] == "-" else None
    return None if epoch is None else AbortedKey(Identity(producer_id, epoch, last))


def _number(text: str, bits: int = 64) -> int | None:
    """The number, if `text` is as we write it: two keys never mean the same."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 19 and (text[0] != "0" or text == "0")):
        return None
    number = int(text)
    return number if number < 1 << bits - 1 else None


# ---- values ----------------------------------------------------------------------------------------------------------


def encode(record: TransactionRecord) -> bytes:
    """The value of a transactional id's record."""
    value: dict[str, Any] = {
        "v": _VERSION,
        "r": record.revision,
        "p": record.producer_id,
        "e": record.epoch,
        "n": record.n,
        "s": record.status,
        "k": record.protocol,
        "m": record.timeout_ms,
        "b": record.begun_ms,
        "u": record.changed_ms,
    }
    if record.ended is not None:
        value["l"] = record.ended
    value["f"] = [[*key, first] for key, first in sorted(record.firsts.items())]
    value |= _of_names(Named(record.partitions, record.groups))
    return _bytes(value)


def decode(data: bytes) -> TransactionRecord | None:
    """The record of a transactional id; None for what is none, or of a later version."""
    try:
        value = _parsed(data)
        named = _names(value)
        record = TransactionRecord(
            revision=_integer(value["r"]),
            producer_id=_integer(value["p"]),
            epoch=_integer(value["e"], 16),
            n=_integer(value["n"]),
            status=Status(_text(value["s"])),
            protocol=_integer(value["k"]),
            timeout_ms=_integer(value["m"], 32),
            begun_ms=_integer(value["b"]),
            changed_ms=_integer(value["u"]),
            ended=_ended(value.get("l")),
            partitions=named.partitions,
            firsts=_firsts(value["f"]),
            groups=named.groups,
        )
    except (_BadRecord, KeyError, ValueError, TypeError):
        return None
    return record if _can_be(record) else None


def _can_be(record: TransactionRecord) -> bool:
    """Whether the state machine gives such a record."""
    if record.status is Status.EMPTY:
        return record.n == 0 and record.protocol in (1, 2)
    if record.protocol == 2:  # each epoch is one transaction, and ends with it
        return record.n == 0 and record.status is Status.OPEN
    return record.n > 0 and record.protocol == 1


def encode_aborted(decided_ms: int, record: TransactionRecord) -> bytes:
    """The value of an aborted transaction; `record`: as it was while the transaction was open."""
    return _bytes({"v": _VERSION, "t": decided_ms, **_of_names(Named(record.partitions, record.groups))})


def split_aborted(value: bytes) -> tuple[int, bytes]:
    """When an aborted transaction was decided, and the rest of its value, which is the same for many.

    What is not written as we write it is all rest, so that `joined_aborted` gives it back in any case.
    """
    found = _ABORTED.fullmatch(value)
    return (int(found[1]), found[2]) if found else (_ALL_REST, value)


def joined_aborted(decided_ms: int, rest: bytes) -> bytes:
    """The value of which these are the parts."""
    return rest if decided_ms == _ALL_REST else b'{"v":%d,"t":%d,%b' % (_VERSION, decided_ms, rest)


def encode_block(block: AbortedRecord) -> bytes:
    """The value of a block of aborted transactions."""
    bits = b64encode(block.bitmap).decode()
    return _bytes({"v": _VERSION, "t": block.decided_ms, "x": bits, **_of_names(block.named)})


def decode_aborted(data: bytes) -> AbortedRecord | None:
    """The value of an aborted transaction; None for what is none, or of a later version."""
    try:
        value = _parsed(data)
        return AbortedRecord(_integer(value["t"]), _names(value))
    except (_BadRecord, KeyError, ValueError, TypeError):
        return None


def decode_block(data: bytes) -> AbortedRecord | None:
    """The value of a block; None for what is none, or of a later version."""
    try:
        value = _parsed(data)
        bitmap = b64decode(_text(value["x"]), validate=True)
        return AbortedRecord(_integer(value["t"]), _names(value), bitmap) if len(bitmap) == _BITMAP_BYTES else None
    except (_BadRecord, KeyError, ValueError, TypeError):
        return None


def _bytes(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _of_names(named: Named) -> dict[str, Any]:
    partitions = [[*topic, of_topic] for topic, of_topic in sorted(named.partitions.items())]
    return {"w": partitions, "g": sorted(named.groups)}


def _parsed(data: bytes) -> dict[str, Any]:
    """The JSON object, if it is of this version."""
    try:
        value = json.loads(data.decode())
    except RecursionError:
        value = None
    if not isinstance(value, dict) or value["v"] != _VERSION:
        raise _BadRecord("not a JSON object of this version")
    return value


def _names(value: Mapping[str, Any]) -> Named:
    partitions = {}
    for topic, topic_id, pairs in value["w"]:
        of_topic = tuple((_integer(first, 32), _integer(last, 32)) for first, last in pairs)
        if not of_topic or not ranges.are_in_order(of_topic):
            raise _BadRecord("ranges are out of order")
        partitions[intern(_text(topic)), _topic_id(topic_id)] = of_topic  # many records name the same few topics
    return Named(partitions or _NO_PARTITIONS, frozenset(intern(_text(group)) for group in value["g"]))


def _firsts(value: Any) -> Mapping[tuple[str, int], int]:
    firsts = {(_topic_id(topic_id), _integer(index, 32)): _integer(first) for topic_id, index, first in value}
    return firsts or _NO_FIRSTS


def _ended(value: Any) -> Ended | None:
    if value is None:
        return None
    producer_id, epoch, how = value
    if how not in _HOW:
        raise _BadRecord("no way to end an epoch")
    return Ended(_integer(producer_id), _integer(epoch, 16), how)


def _integer(value: object, bits: int = 64) -> int:
    """A number of so many bits, sign included, that is not below 0."""
    if type(value) is not int or not 0 <= value < 1 << bits - 1:
        raise _BadRecord(f"not a number of {bits} bits")
    return value


def _text(value: object) -> str:
    """A text that a Kafka message can hold: JSON may have half a surrogate pair."""
    if isinstance(value, str) and len(value.encode()) <= MAX_STRING:
        return value
    raise _BadRecord("not a text")


def _topic_id(value: object) -> str:
    topic_id = _text(value)
    if not _HEXADECIMAL.issuperset(topic_id):
        raise _BadRecord("not a topic's id")
    return intern(topic_id)
