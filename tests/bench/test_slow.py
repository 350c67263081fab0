import asyncio
import contextlib
import struct
from types import SimpleNamespace

import pytest

from bench import slow
from tests.bench.answers import answer, batch


async def test_a_slow_consumer_reads_whole_answers_in_small_parts_and_goes_on_behind_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batches = [batch(0, 3), batch(3, 5000)]
    asked: list[int] = []
    # its time is over at the fourth request
    monkeypatch.setattr(slow, "time", SimpleNamespace(monotonic=lambda: len(asked)))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError), contextlib.closing(writer):
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                request = await reader.readexactly(size)
                asked.append(request.count(struct.pack(">q", 5003)))
                body = answer(batches if len(asked) == 1 else [])
                writer.write(struct.pack(">ii", 4 + len(body), 1) + body)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        had = await slow.consume(f"127.0.0.1:{port}", "topic", 0, 0.01, until=4)
    assert had == sum(map(len, batches))
    assert asked == [0, 1, 1, 1]
