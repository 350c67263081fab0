"""What a lying broker may send: frames, commands, entries and what is in them, addresses."""

from __future__ import annotations

import struct

from google.protobuf.message import DecodeError

from bridge import codec
from bridge.codec import _python as reference
from bridge.codec.compression import PulsarCodec, compress_pulsar
from bridge.errors import BridgeError, CorruptEntry
from bridge.pulsar import commands, protocol
from bridge.pulsar.connection.pool import parse_url
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import Entry, Position, PulsarError
from bridge.storage import entries
from bridge.storage.entries import FORMAT_PROPERTY, KAFKA, PROPERTY
from bridge.storage.offsets import span
from bridge.storage.read.chunks import ChunkAssembler, is_chunk
from tests.codec import old_messages
from tests.codec.samples import own, section
from tests.fuzz.decoders.codecs import RECORDS
from tests.fuzz.decoders.target import Input, Target, part, same

_LIMIT = 1 << 16
JSON_WORDS = (
    b"null", b"true", b"-1", b"1e999", b"NaN", b"Infinity", b"[]", b"{}", b'""', b"[" * 1500, b'{"a":' * 1500,
    b"9" * 30, b'"\\ud800"', b"9" * 4400, b"1.5",
)  # fmt: skip
_MARK_WORDS = (PROPERTY.encode(), FORMAT_PROPERTY.encode(), b'{"v":1,"t":', b',"b":', b',"p":[1,2,3]}', b',"e":1')

# ---- frames ----------------------------------------------------------------------------------------------------------


def check_frames(data: bytes) -> bool:
    """A stream gives the same frames, or the same refusal, whatever its pieces; each is a command or a refusal."""
    given = Input(data)
    size = 1 + given.number()
    stream = given.rest()
    found = _frames(stream, size)
    same(_frames(stream, 1 << 20), found, "frames by pieces")
    return bool(found) and all([_is_command(memoryview(one)) for one in found or ()])


def _frames(stream: bytes, size: int) -> list[bytes] | None:
    buffer = protocol.FrameBuffer(_LIMIT)
    found: list[bytes] = []
    try:
        while stream:
            space = buffer.space()
            count = min(size, len(space), len(stream))
            space[:count] = stream[:count]
            found += [bytes(one) for one in buffer.received(count)]
            stream = stream[count:]
    except protocol.ProtocolError:
        return None  # frames before it are lost with the connection
    return found


def _is_command(frame: memoryview) -> bool:
    try:
        command, body = protocol.split(frame)
        count = protocol.count_messages(body)
        if body:
            parsed = protocol.parse_body(body)
            same(count, max(parsed.metadata.num_messages_in_batch, 1), "counts of messages")
    except protocol.ProtocolError:
        return False
    return command.IsInitialized()


def frames() -> list[bytes]:
    """A command, and one with an entry that has all that may be before its payload."""
    send = commands.send(1, 7, None, 1)
    entry = protocol.entry_frame_head(send, protocol.entry_head(_metadata(), [b"payload"]), 7) + b"payload"
    broker = pb.BrokerEntryMetadata(index=3, broker_timestamp=5).SerializeToString()
    head = 8 + struct.unpack_from(">I", entry, 4)[0]
    told = entry[4:head] + struct.pack(">HI", 0x0E02, len(broker)) + broker + entry[head:]
    both = struct.pack(">I", len(told)) + told
    return [bytes([size]) + commands.ping() + entry + both for size in (0, 9, 255)]


# ---- entries ---------------------------------------------------------------------------------------------------------


def check_entry(data: bytes) -> bool:
    """An entry of any writer: CorruptEntry, or records within its offsets, in batches that clients can read."""
    given = Input(data)
    try:
        metadata = pb.MessageMetadata.FromString(given.part())
    except DecodeError:
        return False
    payload = given.rest()
    entry = Entry(Position(1, 2), 1000, None, metadata, memoryview(payload), len(payload))
    if is_chunk(metadata):
        assembled = ChunkAssembler(_LIMIT).feed(entry)
        if assembled is None:
            return True
    base, after = span(1000, entries.message_count(metadata))
    found = _read(entry, base)
    return found is not None and _is_within(found, base, after, verbatim=entries.is_kafka(metadata))


def _read(entry: Entry, base: int) -> bytes | None:
    outcomes: list[bytes | None] = []
    for compress in (False, True):
        try:
            mark = entries.mark_text(entry.metadata)
            struct.pack(">qq", *((0, 0) if mark is None else entries.time_mark_in(mark)))  # as they are stored again
            struct.pack(">qhi", *entries.producer_of(entry.metadata))
            outcomes.append(entries.to_kafka(entry, base, entry.payload, _LIMIT, compress=compress))
        except CorruptEntry:
            outcomes.append(None)
    same(outcomes[1] is None, outcomes[0] is None, "outcomes with and without compression")
    return outcomes[0]


def _is_within(batches: bytes, base: int, after: int, *, verbatim: bool) -> bool:
    headers = [codec.read_header(one) for one in entries.split(memoryview(batches))]
    starts = [header.base_offset for header in headers]
    ends = [header.base_offset + header.last_offset_delta + 1 for header in headers]
    same(starts, [base, *ends[:-1]], "where batches begin and end")
    if ends[-1] > after:
        raise AssertionError(f"batches up to {ends[-1]} in an entry up to {after}")
    same(entries.summary(batches)[1], ends[-1], "the end and its summary")
    try:
        found = entries.records_of(batches, _LIMIT)
    except BridgeError:
        if verbatim:
            return True  # compressed bytes of a client's, which no one has looked at
        raise
    if not verbatim and any(not base <= one.offset < after for one in found):
        raise AssertionError("a record outside of its entry's offsets")
    return True


def _metadata(mark: str = "", **fields: object) -> bytes:
    found = pb.MessageMetadata(producer_name="p", sequence_id=7, publish_time=1_700_000_000_000, **fields)  # type: ignore[arg-type]
    if mark:
        found.properties.add(key=PROPERTY, value=mark)
    return found.SerializeToString()


def stored_entries() -> list[bytes]:
    """Of both formats, compressed and not, of other writers, of KoP, encrypted, a chunk."""
    batch = reference.build_batch(RECORDS, own(3))
    payload = reference.encode_payload(section(batch), 3, 1_700_000_000_000).data
    mark = '{"v":1,"t":1700000000000,"b":4711,"e":1,"p":[1,0,7]}'
    made = [(_metadata(mark, num_messages_in_batch=3), payload)]
    for kind in PulsarCodec:
        fields = {"compression": int(kind), "uncompressed_size": len(payload), "num_messages_in_batch": 3}
        made.append((_metadata(mark, **fields), compress_pulsar(kind, payload)))
    verbatim = pb.MessageMetadata.FromString(_metadata(mark, num_messages_in_batch=3))
    verbatim.properties.add(key=FORMAT_PROPERTY, value=KAFKA)
    for kafka in (batch, old_messages.message(b"value", 1) * 3):
        made.append((verbatim.SerializeToString(), kafka))
    key = pb.EncryptionKeys(key="k", value=b"v")
    made += [
        (_metadata(), b"plain"),
        (_metadata(partition_key="a2V5", partition_key_b64_encoded=True, event_time=5), b"plain"),
        (_metadata(ordering_key=b"key", null_value=True), b""),
        (_metadata(encryption_keys=[key]), b"secret"),
        (_metadata(uuid="u", chunk_id=0, num_chunks_from_msg=2), b"chunk"),
    ]
    return [part(metadata) + payload for metadata, payload in made]


def _marks_that_failed() -> list[bytes]:
    marks = (
        '{"v":1}',
        '{"v":1,"t":Infinity}',
        '{"v":1,"t":1,"p":[1,Infinity,1]}',
        "[" * 1500,
        f'{{"v":1,"t":{2**63}}}',
    )
    return [part(_metadata(mark, num_messages_in_batch=1)) for mark in marks]


# ---- addresses -------------------------------------------------------------------------------------------------------


def check_url(data: bytes) -> bool:
    """Where a look-up leads: PulsarError, or addresses that come out of their own texts again."""
    try:
        found = parse_url(data.decode("utf-8", "replace"))
    except PulsarError:
        return False
    for one in found:
        host = f"[{one.host}]" if ":" in one.host else one.host
        scheme = "pulsar+ssl" if one.tls else "pulsar"
        same(parse_url(f"{scheme}://{host}:{one.port}"), [one], "addresses")
    return True


TARGETS = (
    Target("pulsar_frames", check_frames, frames, (b"\x0e\x01", b"\x0e\x02", b"\x00\x00\x00\x08")),
    Target("entries", check_entry, stored_entries, (*_MARK_WORDS, *JSON_WORDS), 16_384, _marks_that_failed()),
    Target(
        "broker_urls", check_url, lambda: [b"pulsar://broker-1:6650", b"pulsar+ssl://[::1]:6651,other", b"pulsar://a"],
        (b"pulsar://", b"pulsar+ssl://", b"[::1]", b"%25", b"@", b"?", b"#"), 300,
    ),
)  # fmt: skip
