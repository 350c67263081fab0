"""What a Fetch says beside its offset, and what stands around an answer's records, is what the general codec says."""

import random
import uuid

import pytest

from bridge.apis import fetch
from bridge.kafka import fetch_head, fetch_wire, frames, message
from bridge.kafka.fetch_messages import (
    BY_ID,
    Request,
    RequestPartition,
    RequestTopic,
    Response,
    ResponsePartition,
    ResponseTopic,
)
from bridge.kafka.primitives import DecodeError
from tests.kafka.request_frames import frame_of, header_of, mutate

VERSIONS = range(fetch_head.OLDEST, fetch.API.max_version + 1)
MUTATIONS = 20_000


def request_of(version: int, chance: random.Random) -> Request:
    partition = RequestPartition(
        partition=chance.choice([0, 7, 2**31 - 1]),
        current_leader_epoch=chance.choice([-1, 3]),
        fetch_offset=chance.choice([0, 5, 2**40, 2**63 - 1]),
        partition_max_bytes=chance.choice([0, 1 << 20]),
    )
    by_id = version >= BY_ID
    topic = RequestTopic(
        topic="" if by_id else chance.choice(["t", "a.topic", "ü" * 20]),
        topic_id=uuid.UUID(int=chance.getrandbits(128)) if by_id else message.ZERO_UUID,
        partitions=[partition],
    )
    rack = chance.choice(["", "rack"]) if version >= 11 else ""
    return Request(
        max_wait_ms=chance.choice([0, 500]), min_bytes=1, max_bytes=chance.choice([100, 1 << 26]),
        isolation_level=chance.choice([0, 1]), topics=[topic], rack_id=rack,
    )  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
def test_the_head_of_a_request_is_found_and_said_again(version: int) -> None:
    chance = random.Random(version)
    for _ in range(200):
        wanted, client_id = request_of(version, chance), chance.choice(["", "c", "a client", "ö" * 30])
        found = fetch_head.split(memoryview(frame_of(fetch.API, wanted, version, client_id, chance.randrange(2**31))))
        assert found == (
            fetch_head.head(header_of(fetch.API, version, client_id), wanted, version),
            wanted.topics[0].partitions[0].fetch_offset,
        )


@pytest.mark.parametrize("version", VERSIONS)
def test_what_has_a_known_head_is_read_as_the_general_codec_reads_it(version: int) -> None:
    """Whatever else a frame is: bytes changed, left out, added."""
    chance = random.Random(100 + version)
    flexible = version >= fetch_wire.FLEXIBLE
    wanted = request_of(version, chance)
    head = fetch_head.head(header_of(fetch.API, version, "client"), wanted, version)
    met = 0
    for _ in range(MUTATIONS // len(VERSIONS)):
        frame = bytearray(
            frame_of(fetch.API, request_of(version, chance) if chance.random() < 0.2 else wanted, version, "client")
        )
        for _ in range(chance.randrange(3)):
            mutate(frame, chance)
        found = fetch_head.split(memoryview(bytes(frame)))
        if found is None or found[0] != head:
            continue
        met += 1
        view = memoryview(bytes(frame))
        header = frames.parse_header(view, flexible)
        try:
            read = fetch_wire.read(view[header.body_offset :], version)
        except DecodeError:
            pytest.fail("a frame with a known head is no request")
        wanted.topics[0].partitions[0].fetch_offset = found[1]
        assert (header.client_id, read) == ("client", wanted)
    assert met > 100


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_is_that_of_the_general_codec(version: int) -> None:
    def found(end: int, start: int, records: list[bytes]) -> Response:
        partition = ResponsePartition(
            partition_index=3, error_code=0, high_watermark=end, last_stable_offset=start + 5, log_start_offset=start,
            aborted_transactions=[], records=records,
        )  # fmt: skip
        return Response(responses=[ResponseTopic(topic="topic", topic_id=uuid.UUID(int=7), partitions=[partition])])

    frame = fetch_head.answer_frame(found(0, 0, []), version)
    for records in ([], [b"one"], [b"x" * 300, b"y" * 20_000]):
        for end, start in ((0, 0), (2**62, 2**61)):
            body = fetch_wire.write(found(end, start, records), version)
            flexible = version >= fetch_wire.FLEXIBLE
            whole = b"".join(frames.response(1, 99, flexible, body))
            assert fetch_head.answer(99, frame.body(end, start + 5, start, records), flexible) == whole
