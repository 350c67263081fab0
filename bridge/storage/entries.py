"""One stored entry: what it holds beside the records, and how any writer's entry is read as a Kafka batch.

Format `pulsar`: the entry is an ordinary Pulsar batch, a message for each record. Format `kafka`: the payload is the
Kafka batch as received, and the property `entry.format` says so, as in KoP's entries. What messages cannot say, and
what is needed without reading the payload, is in one more property, which native consumers of batches do not see:

    kafka.batch = {"v":1,"t":1700000000000,"b":4711,"e":1,"p":[id,epoch,sequence],"x":[slot,n],"c":[uuid,number]}

`t` and `b` are its time mark: no record before offset `b` is newer than `t`, nor is one of this entry (`time_marks`
says how that is known, `search` what it is good for). `b` is −1 where nothing can be promised. `e` says that marked
headers are in use (`codec._messages`). `p` is the idempotent producer, absent without one. `x` says that the records
are of a transaction: with id and epoch, `n` names it, and the slot has its outcome (`visibility`). `c` repeats which
chunk of a message it is, so that a copied mark is not taken for another chunk's. The property itself says that an
absent event time means "no timestamp".

Any client that may produce to the topic can write such a mark. Of its own entry it is believed; what it says of others
(`t`, `b`, and that `p` has been stored) only if it is signed (`mark_signer`).

A record that no batch entry holds is an ordinary message, in chunks (`append/messages`). Its headers are properties of
the entry, behind the mark and its signature: the first property of a name is the bridge's.
"""

import json
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from bridge import codec
from bridge.codec import (
    CONTROL,
    HEADER_SIZE,
    NO_PRODUCER,
    TRANSACTIONAL,
    Header,
    Rebuild,
    Record,
    from_base64,
    message_sets,
    timestamp_of,
    unmark,
)
from bridge.codec.compression import KAFKA_OF, decompress_kafka, decompress_pulsar
from bridge.codec.packing import pack
from bridge.errors import BridgeError, CorruptEntry, KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.primitives import Buffer
from bridge.pulsar.pb.PulsarApi_pb2 import MessageMetadata
from bridge.pulsar.types import Entry
from bridge.storage.visibility import Identity, Transaction

PROPERTY = "kafka.batch"
SIGNATURE = "kafka.batch.signature"
FORMAT_PROPERTY = "entry.format"
"""KoP's mark of entries that hold Kafka's bytes; its format `mixed_kafka` has the same."""
PULSAR, KAFKA = "pulsar", "kafka"
_TRANSACTIONAL_MARK = '"x"'  # all else in a mark of ours is numbers
ATTRIBUTES_AT = 22
"""Where in a batch the low byte of its attributes stands, which names its codec."""


def split(records: memoryview) -> list[memoryview]:
    """The batches of one partition's produce data, split by their lengths; raises KafkaError."""
    batches = []
    rest = records
    while len(rest):
        if len(rest) < HEADER_SIZE:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{len(rest)} bytes are no batch")
        magic = rest[16]
        if magic < 2:
            raise KafkaError(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, f"message format {magic} is not supported")
        size = int.from_bytes(rest[8:12], "big", signed=True) + 12
        if size < HEADER_SIZE:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch says {size} bytes, its header has {HEADER_SIZE}")
        if size > len(rest):
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch says {size} bytes, {len(rest)} are left")
        batches.append(rest[:size])
        rest = rest[size:]
    if not batches:
        raise KafkaError(ErrorCode.INVALID_RECORD, "no batch for this partition")
    return batches


def is_transactional(records: Buffer) -> bool:
    """Whether the first batch of one partition's produce data says that it is of a transaction."""
    return len(records) > ATTRIBUTES_AT and records[16] == 2 and bool(records[ATTRIBUTES_AT] & TRANSACTIONAL)


_PRODUCER_AT, _PRODUCER = 43, struct.Struct(">qhi")


def producer_in(records: Buffer) -> tuple[int, int, int]:
    """The producer of the first batch of one partition's produce data, whatever follows it."""
    if len(records) < HEADER_SIZE or records[16] != 2:
        return NO_PRODUCER
    number, epoch, sequence = _PRODUCER.unpack_from(records, _PRODUCER_AT)
    return (number, epoch, sequence) if number >= 0 else NO_PRODUCER


def message_count(metadata: MessageMetadata) -> int:
    """How many offsets an entry takes: as its writer told the broker, 1 unless it is a batch."""
    return metadata.num_messages_in_batch


def producer_of(metadata: MessageMetadata) -> tuple[int, int, int]:
    """The idempotent producer of an entry that the bridge wrote: id, epoch, base sequence."""
    mark = _bridge_mark(metadata)
    return NO_PRODUCER if mark is None else _producer(mark)


def transaction_of(metadata: MessageMetadata) -> Transaction | None:
    """The transaction that an entry says its records are of; None also where its mark cannot be read, as its records
    cannot.

    What another cluster's bridge has written, and Pulsar has copied here, is of none: its outcomes are recorded there.
    """
    text = mark_text(metadata)
    if text is None or _TRANSACTIONAL_MARK not in text or metadata.HasField("replicated_from"):
        return None
    try:
        return _transaction(_parse_mark(text))
    except CorruptEntry:
        return None


def is_marked_chunk(metadata: MessageMetadata) -> bool:
    """Whether the mark is of this chunk; to be believed if that is signed (`mark_signer`)."""
    text = mark_text(metadata)
    if text is None:
        return False
    try:
        return _parse_mark(text).get("c") == [metadata.uuid, metadata.chunk_id]
    except CorruptEntry:
        return False


class TimeMark(NamedTuple):
    """What an entry says of the timestamps before it."""

    newest: int
    """A timestamp in ms that no record of this entry and none before `complete` is newer than; −1: there is none."""
    complete: int
    """An offset, or NO_PROMISE."""


NO_PROMISE = -1
"""Nothing is promised of other entries."""


def time_mark_in(text: str) -> TimeMark:
    """The time mark in what `mark_text` returned: to be believed if that is signed (`mark_signer`)."""
    mark = _parse_mark(text)
    return TimeMark(_number(mark.get("t")), _number(mark.get("b")))


_MAX_RECORD_BYTES = 1 << 27
_MAX_LISTED_RECORDS = 10_000  # as a list, records take many times the memory of their bytes; one by one is slower


def each_record(batches: bytes, limit: int = _MAX_RECORD_BYTES) -> Iterator[Record]:
    """The records in what `to_kafka` returned, which may be several batches and compressed ones, to `limit` bytes."""
    rest = memoryview(batches)
    while len(rest):
        size = int.from_bytes(rest[8:12], "big") + 12
        header = codec.read_header(rest[:size])
        plain = decompress_kafka(header.attributes, rest[HEADER_SIZE:size], limit)
        if header.record_count > _MAX_LISTED_RECORDS:
            yield from message_sets.each_record(header, bytes(plain))
        else:
            yield from codec.read_records(rest[:size], bytes(plain))
        rest = rest[size:]


def records_of(batches: bytes, limit: int = _MAX_RECORD_BYTES) -> list[Record]:
    """The same, all of them."""
    return list(each_record(batches, limit))


def summary(batches: bytes) -> tuple[int, int]:
    """Of what `to_kafka` returned, by its headers alone: the newest timestamp, and the offset after the last."""
    headers = [codec.read_header(batch) for batch in split(memoryview(batches))]
    last = headers[-1]
    return max(header.max_timestamp for header in headers), last.base_offset + last.last_offset_delta + 1


def is_control(batches: bytes) -> bool:
    """Whether what `to_kafka` returned, or what stands for entries without records, is one control batch."""
    return is_one_batch(batches) and bool(batches[ATTRIBUTES_AT] & CONTROL)


def is_kafka(metadata: MessageMetadata) -> bool:
    """Whether the payload is Kafka's bytes: what stands behind the bridge's mark is a record's header."""
    for item in metadata.properties:
        if item.key == FORMAT_PROPERTY and item.value == KAFKA:
            return True
        if item.key == PROPERTY:
            return False
    return False


def is_one_batch(payload: bytes | memoryview) -> bool:
    """Whether Kafka's bytes are one batch v2, of which nothing needs to be looked at but its header."""
    if len(payload) < HEADER_SIZE or payload[message_sets.MAGIC_AT] != 2:
        return False
    return int.from_bytes(payload[8:12], "big", signed=True) + 12 == len(payload)


def to_kafka(entry: Entry, base: int, payload: bytes | memoryview, limit: int, *, compress: bool = False) -> bytes:
    """An entry as Kafka batches from offset `base` on; raises CorruptEntry.

    `payload` is an argument of its own because a chunked message's comes from several entries. `compress`: what Pulsar
    stores compressed becomes a compressed batch again.
    """
    metadata = entry.metadata
    count = message_count(metadata)
    if is_kafka(metadata):
        return _verbatim(payload, base, count, limit)
    mark = _bridge_mark(metadata)
    rebuild = Rebuild(base, count, metadata.publish_time)
    if mark is not None:
        attributes = 0 if _transaction(mark) is None else TRANSACTIONAL
        rebuild = Rebuild(base, count, metadata.publish_time, True, "e" in mark, _producer(mark), attributes)
    if metadata.encryption_keys:
        # only holders of the writer's key can read it: they get the bytes as they are, as from Pulsar
        return codec.build_batch([_single(metadata, bytes(payload), rebuild)], rebuild)
    plain = decompress_pulsar(metadata.compression, payload, metadata.uncompressed_size, limit)
    if metadata.HasField("num_messages_in_batch"):
        batch = codec.decode_payload(plain, count, rebuild)
    else:
        batch = codec.build_batch([_single(metadata, bytes(plain), rebuild)], rebuild)
    return pack(batch, KAFKA_OF[metadata.compression]) if compress and metadata.compression else batch


def _producer(mark: dict[str, Any]) -> tuple[int, int, int]:
    producer = mark.get("p", NO_PRODUCER)
    if not isinstance(producer, list | tuple) or len(producer) != len(NO_PRODUCER):
        raise CorruptEntry(f"the property {PROPERTY} names no producer: {mark}")
    number, epoch, sequence = producer
    return _number(number), _number(epoch, 16), _number(sequence, 32)


def _transaction(mark: dict[str, Any]) -> Transaction | None:
    found = mark.get("x")
    if found is None:
        return None
    producer_id, epoch, _ = _producer(mark)
    if not isinstance(found, list) or len(found) != len(Transaction._fields) or producer_id < 0 or epoch < 0:
        raise CorruptEntry(f"the property {PROPERTY} names no transaction: {mark}")
    slot, n = (_number(one, 32) for one in found)
    if slot < 0 or n < 0:
        raise CorruptEntry(f"the property {PROPERTY} names no transaction: {mark}")
    return Transaction(slot, Identity(producer_id, epoch, n))


def _number(value: object, bits: int = 64) -> int:
    if type(value) is not int or not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise CorruptEntry(f"the property {PROPERTY} has {str(value)[:100]} where a number of {bits} bits should be")
    return value


def mark_text(metadata: MessageMetadata) -> str | None:
    """What the bridge has written beside an entry's records, not parsed; None for other writers' entries."""
    for item in metadata.properties:
        if item.key == PROPERTY:
            return item.value
    return None


def _bridge_mark(metadata: MessageMetadata) -> dict[str, Any] | None:
    text = mark_text(metadata)
    return None if text is None else _parse_mark(text)


def _parse_mark(text: str) -> dict[str, Any]:
    try:
        mark = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptEntry(f"the property {PROPERTY} is not ours: {text!r}") from error
    if not isinstance(mark, dict) or mark.get("v") != 1:
        raise CorruptEntry(f"the property {PROPERTY} is of an unknown version: {text!r}")
    return mark


def _single(metadata: MessageMetadata, value: bytes, rebuild: Rebuild) -> Record:
    """The record of an entry that is one message: another writer's, or one that no batch entry holds."""
    key = None
    if metadata.HasField("partition_key"):
        key = _utf8_bytes(metadata.partition_key)
        if metadata.partition_key_b64_encoded:
            key = from_base64(key)
    elif metadata.HasField("ordering_key"):
        key = metadata.ordering_key
    timestamp = timestamp_of(metadata.event_time if metadata.HasField("event_time") else None, rebuild)
    headers = _headers(metadata, rebuild)
    return Record(rebuild.base_offset, timestamp, key, None if metadata.null_value else value, headers)


def _headers(metadata: MessageMetadata, rebuild: Rebuild) -> list[Header]:
    headers: list[Header] = []
    own = [PROPERTY, SIGNATURE] if rebuild.own else []
    for item in metadata.properties:
        if item.key in own:
            own.remove(item.key)
            continue
        name, text = _utf8_bytes(item.key), _utf8_bytes(item.value)
        if not rebuild.escaped:
            headers.append((name, text))
            continue
        plain = unmark(name)
        if plain is None:
            raise CorruptEntry("a header has no key")
        headers.append((plain, unmark(text)))
    return headers


def _utf8_bytes(text: str | bytes) -> bytes:
    """A string field's bytes; protobuf returns what is not UTF-8 as bytes (other languages' clients may send it)."""
    return text.encode() if isinstance(text, str) else text


def _verbatim(payload: bytes | memoryview, base: int, count: int, limit: int) -> bytes:
    """Kafka's bytes as they were stored: only the offsets, which no checksum covers, are this partition's own."""
    parts: list[bytes | memoryview] = []
    end = base + count
    try:
        for batch in split(memoryview(_as_batches(payload, limit))):
            header = codec.read_header(batch)
            # the leader epoch, too, is what the bridge reports everywhere
            parts += (base.to_bytes(8, "big"), batch[8:12], bytes(4), batch[16:])
            if header.last_offset_delta < 0:
                raise CorruptEntry(f"a batch of {header.last_offset_delta + 1} offsets")
            base += header.last_offset_delta + 1
    except (BridgeError, OverflowError) as error:
        raise CorruptEntry(f"an entry of format kafka is not Kafka's: {error}") from error
    if base > end:
        raise CorruptEntry(f"an entry of format kafka holds {base - end} records more than it says")
    return b"".join(parts)


def _as_batches(payload: bytes | memoryview, limit: int) -> bytes | memoryview:
    """As batches v2: KoP stored the message sets of old clients as they were."""
    if len(payload) > message_sets.MAGIC_AT and payload[message_sets.MAGIC_AT] < 2:
        return message_sets.to_batches(payload, limit)
    return payload
