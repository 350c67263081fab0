"""Makes Pulsar's entries of the batches that clients send, validated as Kafka's LogValidator does.

A batch is one entry where it fits. One that does not is cut at the borders of its records, always at the same ones:
a repetition of an idempotent batch is cut as the original was, so that each part is known again by its sequences. A
record that is too large for an entry is a part of its own, and becomes a message of Pulsar's in chunks.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from bridge import codec
from bridge.codec import (
    CONTROL,
    HEADER_SIZE,
    NO_LIMIT,
    NO_PRODUCER,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    Payload,
    Rebuild,
    message_sets,
)
from bridge.codec.compression import (
    CODEC_MASK,
    PULSAR_OF,
    KafkaCodec,
    PulsarCodec,
    compress_pulsar,
    decompress_kafka,
)
from bridge.codec.frames import check_frames
from bridge.codec.packing import pack
from bridge.errors import BatchTooLarge, BridgeError, CorruptBatch, InvalidRecord, KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.primitives import Buffer
from bridge.pulsar.pb.PulsarApi_pb2 import CompressionType, MessageMetadata, SingleMessageMetadata
from bridge.storage.append.conversion_memory import ConversionMemory, Reservation
from bridge.storage.append.messages import Chunk, Message
from bridge.storage.entries import ATTRIBUTES_AT, FORMAT_PROPERTY, KAFKA, PROPERTY, PULSAR, TimeMark, split
from bridge.storage.error_mapping import translate
from bridge.storage.topic_properties import AFTER_MAX_MS, BEFORE_MAX_MS, TIMESTAMP_AFTER, TIMESTAMP_BEFORE
from bridge.storage.visibility import Transaction

METADATA_BYTES = 512
"""The most bytes of an entry's metadata, which the broker's limit includes."""
_CODECS = tuple(KafkaCodec)
_LOG_APPEND_TIME = 0x08
_SEQUENCES = 1 << 31
MAX_ENTRIES = 8
"""A batch may decompress to so many times the largest entry, or to twice its own bytes if that is more."""
MAX_LARGE_RECORDS = 8
"""Records of a batch that are stored in chunks. Native consumers put together 10 messages at a time."""
_KAFKA_FORMAT_DIVISOR = 4  # a record as Kafka writes it is less than 4 times its message, which has 6 bytes at least
_USUAL_EXPANSION = 2  # times the bytes received: other levels, base64, and Pulsar's metadata of each record
# What may be prepared on the event loop. The worst are headers, by the hundred thousand in a record: 17 ns a byte.
MAX_LOOP_RECORDS = 20_000 if codec.TWIN == "native" else 1000
MAX_LOOP_BYTES, _MAX_LOOP_COMPRESSED_BYTES = 256 * 1024, 32 * 1024  # of a batch as received
# A batch may be decompressed on the loop to so many times its size, within these bounds: the cost follows the bytes
# received, and hardly any records compress better.
_LOOP_EXPANSION, _MIN_LOOP_EXPANDED_BYTES, _MAX_LOOP_EXPANDED_BYTES = 16, 16 * 1024, 144 * 1024


@dataclass(frozen=True, slots=True)
class Plan:
    """How the batches of a partition are stored."""

    largest_entry: int
    """The most bytes that an entry's payload may have."""
    entry_format: str = PULSAR
    codec: KafkaCodec | None = None
    """What batches are compressed with; None: as by their producer."""
    requires_keys: bool = False
    """Whether every record must have a key, as in compacted topics, which are never of format kafka."""
    before_max_ms: int = BEFORE_MAX_MS
    after_max_ms: int = AFTER_MAX_MS
    """How far before and after the present the records' timestamps may be."""
    max_batch_bytes: int | None = None
    """The topic's max.message.bytes: of a batch as the client sent it; None where requests have no more."""
    largest_read: int = NO_LIMIT
    """The most bytes that are read of a batch, uncompressed: more must not be stored."""

    @property
    def decides(self) -> bool:
        """Whether more is to be done with a batch than to store it as it is."""
        return self.entry_format != PULSAR or bool(self.codec) or self.requires_keys

    def largest_batch(self, size: int) -> int:
        """The most bytes that a batch of `size` bytes may have uncompressed: the memory that a few bytes can take."""
        return max(MAX_ENTRIES * self.largest_entry, min(_USUAL_EXPANSION * size, self.largest_read))


class PreparedEntry(NamedTuple):
    """A Kafka batch, or a part of one, as the entry that it becomes."""

    data: bytes | memoryview
    record_count: int
    producer: tuple[int, int, int]
    max_timestamp: int
    escaped: bool = False
    verbatim: bool = False
    compression: PulsarCodec = PulsarCodec.NONE
    uncompressed_size: int = 0
    reservation: Reservation | None = None
    """Its part of the conversion memory, if it is much larger than the records received."""
    transaction: Transaction | None = None
    message: Message | None = None
    """It is one message, or a chunk of one; None: a batch."""

    @property
    def is_large(self) -> bool:
        """Whether it has to be stored in chunks."""
        message = self.message
        return message is not None and message.chunk is None and len(self.data) > message.room

    def chunks(self, uuid: str) -> list["PreparedEntry"]:
        """The entries of a large one. The last has all that is said of the record, the others hold a part of its bytes.

        `uuid`: of this attempt to store it alone, so that chunks of two are never taken for those of one.
        """
        message = self.message
        assert message is not None  # noqa: S101 - only a large one has chunks
        data, room = memoryview(self.data), message.room
        count = -(-len(data) // room)
        found = []
        for number in range(count):
            piece, chunk = data[number * room : (number + 1) * room], Chunk(uuid, number, count, len(data))
            found.append(
                PreparedEntry(
                    piece, 1, NO_PRODUCER, NO_TIMESTAMP, compression=self.compression,
                    uncompressed_size=self.uncompressed_size, message=message._replace(chunk=chunk),
                )
            )  # fmt: skip
        found[-1] = self._replace(data=found[-1].data, message=found[-1].message)
        return found

    def release(self) -> None:
        """Pulsar has stored the entry, or never gets it."""
        if self.reservation is not None:
            self.reservation.release()

    def metadata(self, time_mark: TimeMark) -> MessageMetadata:
        """The entry's metadata, with what it says of the timestamps before it."""
        mark = f'{{"v":1,"t":{time_mark.newest},"b":{time_mark.complete}'
        if self.escaped:
            mark += ',"e":1'
        if self.producer != NO_PRODUCER:
            mark += ',"p":[{},{},{}]'.format(*self.producer)
        if self.transaction is not None:
            mark += f',"x":[{self.transaction.slot},{self.transaction.identity.n}]'
        if self.message is not None and self.message.chunk is not None:
            mark += f',"c":["{self.message.chunk.uuid}",{self.message.chunk.number}]'
        if self.message is None:
            size = self.uncompressed_size if self.compression else len(self.data)
            metadata = MessageMetadata(num_messages_in_batch=self.record_count, uncompressed_size=size)
        else:
            metadata = MessageMetadata(uncompressed_size=self.uncompressed_size)
            self.message.describe(metadata)
        if self.compression:
            metadata.compression = CompressionType.ValueType(self.compression)
        if self.verbatim:
            metadata.properties.add(key=FORMAT_PROPERTY, value=KAFKA)
        metadata.properties.add(key=PROPERTY, value=mark + "}")
        return metadata


def prepare_records(
    records: memoryview,
    plan: Plan,
    now: int,
    allow_zstd: bool,
    transaction: Transaction | None = None,
    *,
    on_loop: bool = False,
    decompress: bool = True,
) -> list[PreparedEntry]:
    """All that a produce request has for one partition, batches or a message set, as entries; raises KafkaError.

    `transaction`: whose the batches are, if they say that they are of one. `on_loop`: NeedsThread is raised where this
    takes too long on the event loop; `decompress`: whether there is time there to decompress anything.
    """
    prepared: list[PreparedEntry] = []
    try:  # what `translated` does, but faster
        if is_message_set(records):
            if on_loop:
                raise NeedsThread
            limit = plan.largest_entry
            if plan.max_batch_bytes is not None:
                limit = min(limit, plan.max_batch_bytes)
            records = memoryview(message_sets.to_batches(records, plan.largest_batch(len(records)), limit))
        for batch in split(records):
            if plan.max_batch_bytes is not None and len(batch) > plan.max_batch_bytes:
                text = f"a batch of {len(batch)} bytes is above the topic's max.message.bytes of {plan.max_batch_bytes}"
                raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, text)
            if not allow_zstd and batch[ATTRIBUTES_AT] & CODEC_MASK == KafkaCodec.ZSTD:
                raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce v7 or later")
            is_transactional = batch[ATTRIBUTES_AT] & TRANSACTIONAL
            if is_transactional and transaction is None:
                raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "a batch of no known transaction")
            made = prepare_entries(batch, plan, now, _loop_expansion(batch, decompress) if on_loop else None)
            prepared += [one._replace(transaction=transaction) for one in made] if is_transactional else made
    except KafkaError:
        raise
    except (BridgeError, OSError) as error:
        raise translate(error) from error
    return prepared


def is_message_set(records: Buffer) -> bool:
    """Whether these are messages of magic 0 or 1, from before there were batches."""
    return len(records) > message_sets.MAGIC_AT and records[message_sets.MAGIC_AT] < 2


def is_compressed(batch: memoryview) -> bool:
    """Whether its records have to be decompressed to be validated."""
    return bool(batch[ATTRIBUTES_AT] & CODEC_MASK)


def needs_thread(batch: memoryview) -> bool:
    """Whether the size of this batch alone makes preparing it work for a thread, not for the event loop."""
    if len(batch) > (_MAX_LOOP_COMPRESSED_BYTES if is_compressed(batch) else MAX_LOOP_BYTES):
        return True
    return int.from_bytes(batch[HEADER_SIZE - 4 : HEADER_SIZE], "big") > MAX_LOOP_RECORDS


class NeedsThread(Exception):
    """A batch decompresses to more than the event loop may take on."""


def _loop_expansion(batch: memoryview, decompress: bool) -> int:
    """The most bytes to decompress of this batch on the event loop; NeedsThread where that is no place for it."""
    if needs_thread(batch) or (not decompress and is_compressed(batch)):
        raise NeedsThread
    return min(max(_LOOP_EXPANSION * len(batch), _MIN_LOOP_EXPANDED_BYTES), _MAX_LOOP_EXPANDED_BYTES)


def prepare_entries(batch: memoryview, plan: Plan, now: int, max_expanded: int | None = None) -> list[PreparedEntry]:
    """Validate one batch v2 and turn it into entries; raises CorruptBatch, BatchTooLarge, InvalidRecord, KafkaError.

    `now`: the time in ms by which the records' timestamps are judged. `max_expanded`: the most bytes to decompress;
    NeedsThread where there are more.
    """
    header = _header(batch)
    theirs = _CODECS[header.attributes & CODEC_MASK]
    wanted = theirs if plan.codec is None else plan.codec
    size_divisor, to_entry = 1, _pulsar_entry
    if plan.entry_format == KAFKA:
        if wanted == theirs and len(batch) <= plan.largest_entry:
            return [_verbatim(batch, header, plan, now)]
        size_divisor, to_entry = _KAFKA_FORMAT_DIVISOR, _kafka_entry
    limit = remaining = _USUAL_EXPANSION * len(batch) + plan.largest_batch(len(batch))
    prepared = []
    large = 0
    for payload, producer in _parts(batch, header, plan, now, size_divisor, max_expanded):
        one = None
        if _may_fit(payload, plan):
            one = to_entry(payload, producer, wanted, header.attributes & TRANSACTIONAL)
        if one is None or one.uncompressed_size > plan.largest_entry:
            if payload.records > 1:  # never but with limits that the head of a batch nearly fills
                raise BatchTooLarge(f"{payload.records} records become more than {plan.largest_entry} bytes")
            one = _message_entry(payload, producer, wanted, plan.largest_entry)
            large += one.is_large
        remaining -= len(one.data)
        if remaining < 0:
            raise BatchTooLarge(f"a batch becomes more than {limit} bytes in Pulsar")
        prepared.append(one)
    if large > MAX_LARGE_RECORDS:
        text = f"{large} records of a batch are above {plan.largest_entry} bytes: send smaller batches (batch.size)"
        raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, text)
    return prepared


def excess_bytes(prepared: list[PreparedEntry], received: int) -> int:
    """By how many bytes entries are larger than usual for so many bytes received."""
    made = len(prepared[0].data) if len(prepared) == 1 else sum(len(one.data) for one in prepared)
    return max(made - _USUAL_EXPANSION * received, 0)


def with_reservations(prepared: list[PreparedEntry], received: int, memory: ConversionMemory) -> list[PreparedEntry]:
    """The same entries, each with its part of the memory that is acquired for all."""
    usual = _USUAL_EXPANSION * received
    found = []
    for one in prepared:
        found.append(one._replace(reservation=Reservation(memory, max(len(one.data) - usual, 0))))
        usual = max(usual - len(one.data), 0)
    return found


def _header(batch: memoryview) -> BatchHeader:
    header = codec.read_header(batch)
    if header.attributes & CODEC_MASK >= len(_CODECS):
        raise InvalidRecord(f"compression codec {header.attributes & CODEC_MASK} is unknown")
    if header.attributes & (_LOG_APPEND_TIME | CONTROL):
        _refuse(header.attributes)
    if header.record_count < 1 or header.last_offset_delta != header.record_count - 1:
        raise InvalidRecord(f"last offset delta {header.last_offset_delta} with {header.record_count} records")
    if header.producer_id >= 0 and (header.producer_epoch < 0 or header.base_sequence < 0):
        raise InvalidRecord(f"producer id {header.producer_id} without an epoch or a sequence")
    if header.attributes & CODEC_MASK:
        check_frames(header.attributes & CODEC_MASK, batch[HEADER_SIZE:])
    return header


def _refuse(attributes: int) -> NoReturn:
    """Say why a client may not send such a batch."""
    if attributes & _LOG_APPEND_TIME:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "only a broker may write log append times")
    raise InvalidRecord("clients may not write control batches")


def _check_timestamps(oldest: int, newest: int, plan: Plan, now: int) -> None:
    """Refuse what is too far from the present (`LogValidator.validateTimestamp`).

    Kafka stores some negative timestamps, although none of its producers sends any, and fails on them if it has to
    rewrite the batch. Pulsar's event times are unsigned, so none is accepted but −1, which means no timestamp.
    """
    if oldest < 0:
        text = f"timestamp {oldest} is negative, and not -1 for none"
    elif oldest < now - plan.before_max_ms:
        text = f"timestamp {oldest} is more than {TIMESTAMP_BEFORE}={plan.before_max_ms} ago"
    elif newest > now + plan.after_max_ms:
        text = f"timestamp {newest} is more than {TIMESTAMP_AFTER}={plan.after_max_ms} ahead"
    else:
        return
    raise KafkaError(ErrorCode.INVALID_TIMESTAMP, text)


def _producer(header: BatchHeader, first: int = 0) -> tuple[int, int, int]:
    """The producer of the records from the `first` one on; sequences wrap (`DefaultRecordBatch`)."""
    if header.producer_id < 0:
        return NO_PRODUCER
    return header.producer_id, header.producer_epoch, (header.base_sequence + first) % _SEQUENCES


def _verbatim(batch: memoryview, header: BatchHeader, plan: Plan, now: int) -> PreparedEntry:
    """The batch as it is.

    The records of an uncompressed batch are validated, as in Kafka: it takes little time, and no consumer can read past
    a damaged one. Those of a compressed batch are not: this format exists to avoid decompressing them, the checksum
    proves that they are what their producer wrote, and `check_frames` that consumers have what they need to read it.
    The header has the first and the newest of its timestamps.
    """
    newest = header.max_timestamp
    if not header.attributes & CODEC_MASK:
        checked = codec.check_records(batch[HEADER_SIZE:], header.record_count, header.base_timestamp)
        newest = checked.max_timestamp
        _check_timestamps(checked.min_timestamp, newest, plan, now)
    else:
        for timestamp in (header.base_timestamp, newest):
            if timestamp != NO_TIMESTAMP:
                _check_timestamps(timestamp, timestamp, plan, now)
    data = bytes(batch)  # not to hold the whole request while the entry is in flight
    return PreparedEntry(data, header.record_count, _producer(header), newest, verbatim=True)


def _parts(
    batch: memoryview, header: BatchHeader, plan: Plan, now: int, size_divisor: int, max_expanded: int | None
) -> Iterator[tuple[Payload, tuple[int, int, int]]]:
    """The records as Pulsar's messages, with their producer: as many at a time as fit into an entry, or one.

    They are measured uncompressed and as messages, whatever is made of them then: where the cuts are depends on the
    records and on Pulsar's limit alone, and what is stored is never too large for those who decompress it.
    `size_divisor`: each is so many times smaller than an entry may be.
    """
    plain = _decompressed(batch, header, plan.largest_batch(len(batch)), max_expanded)
    if plan.requires_keys and not codec.check_records(plain, header.record_count, header.base_timestamp).keyed:
        raise InvalidRecord("a record has no key, and the topic's cleanup.policy is to compact")
    if needs_thread(batch):
        plain = memoryview(plain)  # cut without a copy
    limit = plan.largest_entry // size_divisor
    first = 0
    while first < header.record_count:
        payload = codec.encode_payload(plain, header.record_count - first, header.base_timestamp, first, limit)
        _check_timestamps(payload.min_timestamp, payload.max_timestamp, plan, now)
        yield payload, _producer(header, first)
        plain = plain[payload.read :]
        first += payload.records


def _decompressed(batch: memoryview, header: BatchHeader, limit: int, max_expanded: int | None) -> bytes | memoryview:
    most = limit if max_expanded is None else min(max_expanded, limit)
    try:
        return decompress_kafka(header.attributes, batch[HEADER_SIZE:], most)
    except BatchTooLarge:
        if most < limit:
            raise NeedsThread from None
        raise
    except CorruptBatch as error:  # its checksum is right: the producer would only send it again
        raise InvalidRecord(str(error)) from error


def _pulsar_entry(
    payload: Payload, producer: tuple[int, int, int], wanted: KafkaCodec, attributes: int
) -> PreparedEntry:
    """An entry of format `pulsar`; compressed unless that saves nothing."""
    data, newest, _, escaped, count, _ = payload
    size = len(data)
    if wanted != KafkaCodec.NONE:
        packed = compress_pulsar(PULSAR_OF[wanted], data)
        if len(packed) < size:
            return PreparedEntry(packed, count, producer, newest, escaped, False, PULSAR_OF[wanted], size)
    return PreparedEntry(data, count, producer, newest, escaped, uncompressed_size=size)


def _kafka_entry(
    payload: Payload, producer: tuple[int, int, int], wanted: KafkaCodec, attributes: int
) -> PreparedEntry:
    """An entry of format `kafka` that is not as its producer wrote it."""
    rebuild = Rebuild(0, payload.records, 0, True, payload.escaped, producer, attributes)
    batch = codec.decode_payload(payload.data, payload.records, rebuild)
    return PreparedEntry(
        pack(batch, wanted), payload.records, producer, payload.max_timestamp, verbatim=True,
        uncompressed_size=len(batch),
    )  # fmt: skip


def _may_fit(payload: Payload, plan: Plan) -> bool:
    """Whether an entry may hold what is one record at least; as a batch of Kafka's it may be smaller than here."""
    size = len(payload.data)
    if size > plan.largest_entry and plan.entry_format == KAFKA:
        size -= 4 + int.from_bytes(payload.data[:4], "big")  # its value is as large there
    return size <= plan.largest_entry


def _message_entry(
    payload: Payload, producer: tuple[int, int, int], wanted: KafkaCodec, largest_entry: int
) -> PreparedEntry:
    """A record that no batch entry holds, in either format, as a message; compressed unless that saves nothing."""
    size = int.from_bytes(payload.data[:4], "big")
    value = memoryview(payload.data)[4 + size :]
    room = largest_entry - size
    if room < largest_entry // 2:
        raise BatchTooLarge(
            f"a record's key and headers take {size} bytes, {largest_entry // 2} are the most of a record of more than "
            f"{largest_entry}"
        )
    message = Message(SingleMessageMetadata.FromString(payload.data[4 : 4 + size]), room)
    data, compression = value, PulsarCodec.NONE
    if wanted != KafkaCodec.NONE:
        packed = compress_pulsar(PULSAR_OF[wanted], bytes(value))
        if len(packed) < len(value):
            data, compression = memoryview(packed), PULSAR_OF[wanted]
    return PreparedEntry(
        data, 1, producer, payload.max_timestamp, payload.escaped, compression=compression,
        uncompressed_size=len(value), message=message,
    )  # fmt: skip
