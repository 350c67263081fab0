"""One stored entry: how a Kafka batch is written into Pulsar, and how any writer's entry is read back as one.

Format `pulsar`: the entry is an ordinary Pulsar batch, a message for each record. What its messages cannot say stands
in one property of the entry, which native consumers of batches do not see:

    kafka.batch = {"v":1,"t":1700000000000,"e":1,"p":[id,epoch,sequence]}

`t` is the newest timestamp in the partition up to and with this entry, as this bridge saw it (time look-ups search by
it); `e` that marked headers are in use (`codec._messages`); `p` the idempotent producer, absent without one. The
property itself says that an absent event time means "no timestamp".
"""

import base64
import binascii
import json
from typing import Any, NamedTuple

from bridge import codec
from bridge.codec import HEADER_SIZE, NO_PRODUCER, Header, Payload, Rebuild, Record
from bridge.codec.compression import decompress_kafka, decompress_pulsar
from bridge.errors import BatchTooLarge, BridgeError, CorruptEntry, InvalidRecord, KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.pb.PulsarApi_pb2 import MessageMetadata
from bridge.pulsar.types import Entry

PROPERTY = "kafka.batch"
_KOP_PROPERTY = "entry.format"  # KoP's mark of entries that hold Kafka batches as they are
_LOG_APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x08, 0x10, 0x20


class Sealed(NamedTuple):
    """One Kafka batch, validated and turned into an entry's payload."""

    payload: Payload
    record_count: int
    producer: tuple[int, int, int]

    def metadata(self, newest: int) -> MessageMetadata:
        """The entry's metadata; `newest`: the newest timestamp of the partition so far, this batch's included."""
        mark = f'{{"v":1,"t":{newest}'
        if self.payload.escaped:
            mark += ',"e":1'
        if self.producer != NO_PRODUCER:
            mark += ',"p":[{},{},{}]'.format(*self.producer)
        metadata = MessageMetadata(num_messages_in_batch=self.record_count, uncompressed_size=len(self.payload.data))
        metadata.properties.add(key=PROPERTY, value=mark + "}")
        return metadata


def seal(batch: memoryview, limit: int) -> Sealed:
    """Validate one batch v2 as Kafka's LogValidator does and transcode it; raises CorruptBatch,
    BatchTooLarge, InvalidRecord.

    `limit`: the largest uncompressed size in bytes.
    """
    if len(batch) > limit:
        raise BatchTooLarge(f"a batch of {len(batch)} bytes, {limit} are the most")
    header = codec.read_header(batch)
    if header.attributes & _LOG_APPEND_TIME:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "only a broker may write log append times")
    if header.attributes & _CONTROL:
        raise InvalidRecord("clients may not write control batches")
    if header.attributes & _TRANSACTIONAL:
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactions are not offered")
    if header.last_offset_delta != header.record_count - 1:
        raise InvalidRecord(f"last offset delta {header.last_offset_delta} with {header.record_count} records")
    producer = (header.producer_id, header.producer_epoch, header.base_sequence)
    if header.producer_id < 0:
        producer = NO_PRODUCER
    elif header.producer_epoch < 0 or header.base_sequence < 0:
        raise InvalidRecord(f"producer id {header.producer_id} without an epoch or a sequence")
    records = decompress_kafka(header.attributes, batch[HEADER_SIZE:], limit)
    payload = codec.encode_payload(records, header.record_count, header.base_timestamp)
    return Sealed(payload, header.record_count, producer)


def require_keys(batch: memoryview) -> None:
    """Raise InvalidRecord unless every record of a sealed batch has a key, as Kafka does for compacted topics."""
    for number, record in enumerate(records_of(bytes(batch))):
        if record.key is None:
            raise InvalidRecord(f"record {number} has no key, and the topic's cleanup.policy is to compact")


def record_count(batch: memoryview) -> int:
    """How many records a batch (from `split`) claims to have."""
    return int.from_bytes(batch[HEADER_SIZE - 4 : HEADER_SIZE], "big")


def split(records: memoryview) -> list[memoryview]:
    """The batches of one partition's produce data, told apart by their lengths; raises KafkaError."""
    batches = []
    rest = records
    while len(rest):
        if len(rest) < HEADER_SIZE:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{len(rest)} bytes are no batch")
        magic = rest[16]
        if magic < 2:
            raise KafkaError(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, f"message format {magic} is not supported")
        size = int.from_bytes(rest[8:12], "big", signed=True) + 12
        if size < HEADER_SIZE or size > len(rest):
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch says {size} bytes, {len(rest)} are left")
        batches.append(rest[:size])
        rest = rest[size:]
    if not batches:
        raise KafkaError(ErrorCode.INVALID_RECORD, "no batch for this partition")
    return batches


def message_count(metadata: MessageMetadata) -> int:
    """How many offsets an entry takes: what its writer told the broker, 1 unless it is a batch."""
    return metadata.num_messages_in_batch


def producer_of(metadata: MessageMetadata) -> tuple[int, int, int]:
    """The idempotent producer of an entry that the bridge wrote: id, epoch, base sequence."""
    mark = _own_mark(metadata)
    return NO_PRODUCER if mark is None else _producer(mark)


def newest_so_far(metadata: MessageMetadata) -> int | None:
    """The newest timestamp of the partition up to this entry, where the bridge wrote it down."""
    mark = _own_mark(metadata)
    return None if mark is None else int(mark["t"])


def records_of(batch: bytes) -> list[Record]:
    """The records in what `to_kafka` returned, which may be several batches and compressed ones."""
    found: list[Record] = []
    rest = memoryview(batch)
    while len(rest):
        size = int.from_bytes(rest[8:12], "big") + 12
        header = codec.read_header(rest[:size])
        plain = decompress_kafka(header.attributes, rest[HEADER_SIZE:size], _UNLIMITED)
        found += codec.read_records(rest[:size], plain)
        rest = rest[size:]
    return found


_UNLIMITED = (1 << 31) - 1


def to_kafka(entry: Entry, base: int, payload: bytes | memoryview, limit: int) -> bytes:
    """An entry as Kafka batches from offset `base` on; raises CorruptEntry.

    `payload` stands apart because a chunked message's is put together from several entries.
    """
    metadata = entry.metadata
    if any(p.key == _KOP_PROPERTY and p.value == "kafka" for p in metadata.properties):
        return _verbatim(bytes(payload), base)
    mark = _own_mark(metadata)
    count = message_count(metadata)
    rebuild = Rebuild(base, count, metadata.publish_time)
    if mark is not None:
        producer = _producer(mark)
        rebuild = Rebuild(base, count, metadata.publish_time, True, "e" in mark, producer)
    if metadata.encryption_keys:
        # only the writer's key holders can read it: they get what they get from Pulsar, the bytes as they are
        return codec.build_batch([_single(metadata, bytes(payload), rebuild)], rebuild)
    plain = decompress_pulsar(metadata.compression, payload, metadata.uncompressed_size, limit)
    if metadata.HasField("num_messages_in_batch"):
        return codec.decode_payload(plain, count, rebuild)
    return codec.build_batch([_single(metadata, plain, rebuild)], rebuild)


def _producer(mark: dict[str, Any]) -> tuple[int, int, int]:
    try:
        number, epoch, sequence = mark.get("p", NO_PRODUCER)
        return int(number), int(epoch), int(sequence)
    except (TypeError, ValueError) as error:
        raise CorruptEntry(f"the property {PROPERTY} names no producer: {mark}") from error


def _own_mark(metadata: MessageMetadata) -> dict[str, Any] | None:
    for item in metadata.properties:
        if item.key == PROPERTY:
            try:
                mark = json.loads(item.value)
            except ValueError as error:
                raise CorruptEntry(f"the property {PROPERTY} is not ours: {item.value!r}") from error
            if not isinstance(mark, dict) or mark.get("v") != 1:
                raise CorruptEntry(f"the property {PROPERTY} is of an unknown version: {item.value!r}")
            return mark
    return None


def _single(metadata: MessageMetadata, value: bytes, rebuild: Rebuild) -> Record:
    """The record of an entry that is one message; the bridge itself writes batches only, so another writer's."""
    key = None
    if metadata.HasField("partition_key"):
        key = _raw(metadata.partition_key)
        if metadata.partition_key_b64_encoded:
            try:
                key = base64.b64decode(key, validate=True)
            except binascii.Error as error:
                raise CorruptEntry("a key is not base64") from error
    elif metadata.HasField("ordering_key"):
        key = metadata.ordering_key
    headers: list[Header] = [(_raw(item.key), _raw(item.value)) for item in metadata.properties]
    timestamp = metadata.event_time or rebuild.publish_time  # event time 0 is Pulsar's "unset"
    return Record(rebuild.base_offset, timestamp, key, None if metadata.null_value else value, headers)


def _raw(text: str | bytes) -> bytes:
    """A string field's bytes; protobuf hands over what is not UTF-8 as bytes (other languages' clients may send it)."""
    return text.encode() if isinstance(text, str) else text


def _verbatim(payload: bytes, base: int) -> bytes:
    """Kafka batches stored as they came: only their base offsets are this partition's own."""
    out = bytearray(payload)
    view = memoryview(out)
    try:
        for batch in split(view):
            header = codec.read_header(batch)
            batch[:8] = base.to_bytes(8, "big")
            batch[12:16] = b"\0\0\0\0"  # the leader epoch the bridge reports everywhere
            base += header.last_offset_delta + 1
    except (BridgeError, OverflowError) as error:
        raise CorruptEntry(f"an entry of format kafka is not record batches v2: {error}") from error
    return bytes(out)
