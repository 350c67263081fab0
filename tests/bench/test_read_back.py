import asyncio
import contextlib
import struct

import pytest

from bench import read_back, wire
from bridge.kafka import produce_wire
from bridge.kafka.produce_wire import Response, ResponsePartition, ResponseTopic
from tests.bench.answers import answer, batch


def produced(error: int) -> bytes:
    partition = ResponsePartition(index=0, error_code=error, base_offset=7)
    response = Response(responses=[ResponseTopic(name="topic", partition_responses=[partition])])
    return b"".join(bytes(buffer) for buffer in produce_wire.write(response, 8))


def test_the_offset_is_that_of_the_produces_answer() -> None:
    assert read_back.offset_of(produced(0), "topic") == 7
    with pytest.raises(ValueError, match="error 6"):
        read_back.offset_of(produced(6), "topic")


async def test_a_record_is_asked_for_again_until_it_is_there() -> None:
    answers = [[], [], [batch(7, 1)]]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError), contextlib.closing(writer):
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                assert struct.pack(">q", 7) in await reader.readexactly(size)
                body = answer(answers.pop(0))
                writer.write(struct.pack(">ii", 4 + len(body), 1) + body)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        consumer = await wire.Client.connect(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
        assert await read_back.read(consumer, "topic", 500, 7) > 0
        consumer.close()
    assert answers == []
