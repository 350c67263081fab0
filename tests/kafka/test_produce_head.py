"""What stands before a Produce's records and around its answer's offsets is what the general codec says it is."""

import random

import pytest

from bridge.apis import produce
from bridge.kafka import frames, produce_head, produce_wire
from bridge.kafka.produce_wire import (
    Request,
    RequestPartition,
    RequestTopic,
    Response,
    ResponsePartition,
    ResponseTopic,
)
from tests.kafka.request_frames import frame_of, header_of, mutate

VERSIONS = range(produce_head.OLDEST, produce.API.max_version + 1)
MUTATIONS = 20_000


def request_of(chance: random.Random) -> Request:
    partition = RequestPartition(
        index=chance.choice([0, 7, 2**31 - 1]), records=chance.randbytes(chance.choice([0, 9, 99, 300]))
    )
    return Request(
        acks=chance.choice([1, -1]),
        timeout_ms=chance.choice([0, 1500, 30_000]),
        topic_data=[RequestTopic(name=chance.choice(["t", "a.topic", "ü" * 20]), partition_data=[partition])],
    )


def plainly_read(frame: bytes) -> tuple[bytes, bytes] | None:
    """The head and the records, if the frame is one of a Produce of one partition."""
    found = produce_head.split(memoryview(frame))
    return None if found is None else (found[0], bytes(found[1]))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_head_of_a_request_is_found_and_said_again(version: int) -> None:
    chance = random.Random(version)
    for _ in range(200):
        wanted, client_id = request_of(chance), chance.choice(["", "c", "a client", "ö" * 30])
        read = plainly_read(frame_of(produce.API, wanted, version, client_id, chance.randrange(2**31)))
        assert read == (
            produce_head.head(header_of(produce.API, version, client_id), wanted, version),
            wanted.topic_data[0].partition_data[0].records,
        )


@pytest.mark.parametrize("version", VERSIONS)
def test_what_has_a_known_head_is_read_as_the_general_codec_reads_it(version: int) -> None:
    """Whatever else a frame is: bytes changed, left out, added."""
    chance = random.Random(100 + version)
    flexible = version >= produce_wire.FLEXIBLE
    wanted = request_of(chance)
    head = produce_head.head(header_of(produce.API, version, "client"), wanted, version)
    met = 0
    for _ in range(MUTATIONS // len(VERSIONS)):
        frame = bytearray(
            frame_of(produce.API, request_of(chance) if chance.random() < 0.2 else wanted, version, "client")
        )
        for _ in range(chance.randrange(3)):
            mutate(frame, chance)
        read = plainly_read(bytes(frame))
        if read is None or read[0] != head:
            continue
        met += 1
        view = memoryview(bytes(frame))
        header = frames.parse_header(view, flexible)
        found = produce_wire.read(view[header.body_offset :], version)
        ((topic,), (partition,)) = found.topic_data, found.topic_data[0].partition_data
        assert (header.client_id, found.transactional_id) == ("client", None)
        assert (found.acks, found.timeout_ms) == (wanted.acks, wanted.timeout_ms)
        assert (topic.name, partition.index) == (
            wanted.topic_data[0].name,
            wanted.topic_data[0].partition_data[0].index,
        )
        assert bytes(partition.records or b"") == read[1]
    assert met > 100


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_is_that_of_the_general_codec(version: int) -> None:
    def stored(base: int, start: int) -> Response:
        partition = ResponsePartition(index=3, error_code=0, base_offset=base, log_start_offset=start)
        return Response(responses=[ResponseTopic(name="topic", partition_responses=[partition])])

    frame = produce_head.answer_frame(stored(0, 0), version)
    for base, start in ((0, 0), (1, -1), (2**62, 2**61)):
        body = produce_wire.write(stored(base, start), version)
        whole = b"".join(frames.response(0, 99, version >= produce_wire.FLEXIBLE, body))
        assert frame.around(99, base, start) == whole


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_may_have_no_id_at_all(version: int) -> None:
    wanted = request_of(random.Random(version))
    frame = bytearray(frame_of(produce.API, wanted, version, ""))
    frame[8:10] = b"\xff\xff"
    start = bytearray(header_of(produce.API, version, ""))
    start[8:10] = b"\xff\xff"
    found = plainly_read(bytes(frame))
    assert found == (produce_head.head(start, wanted, version), wanted.topic_data[0].partition_data[0].records)
