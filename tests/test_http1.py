"""HTTP/1.1 heads and bodies out of a stream, whole and in pieces, sound and not."""

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.http1 import Head, HttpError, ends_with_connection, read_body, read_head, status_of

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Two: a\r\nx-two:  b \r\n\r\nhello"
CHUNKED_HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n"
CHUNKED = CHUNKED_HEAD + b"4;name=value\r\nhell\r\nA\r\no, world! \r\n0\r\nTrailer: x\r\n\r\n"


def stream(data: bytes, limit: int = 65536) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit)
    reader.feed_data(data)
    reader.feed_eof()
    return reader


async def answer(reader: asyncio.StreamReader) -> tuple[Head, bytes]:
    head = await read_head(reader)
    assert head is not None
    return head, await read_body(reader, head)


async def test_a_head_and_its_body() -> None:
    head, body = await answer(stream(ANSWER))
    assert head == Head("HTTP/1.1 200 OK", {"content-length": "5", "x-two": "a, b"})
    assert (status_of(head), body) == ((200, "OK"), b"hello")


async def test_a_body_in_chunks() -> None:
    assert (await answer(stream(CHUNKED + b"next")))[1] == b"hello, world! "


@pytest.mark.parametrize("data", [ANSWER, CHUNKED])
async def test_bytes_may_come_one_by_one(data: bytes) -> None:
    reader = asyncio.StreamReader()
    reading = asyncio.ensure_future(answer(reader))
    for byte in data:
        reader.feed_data(bytes([byte]))
        await asyncio.sleep(0)
    assert (await reading)[1].startswith(b"hello")


@pytest.mark.parametrize("data", [ANSWER, CHUNKED])
async def test_what_is_cut_off_is_told(data: bytes) -> None:
    for end in range(1, len(data)):
        with pytest.raises(HttpError, match="closed in the midst"):
            await answer(stream(data[:end]))


async def test_a_stream_may_end_before_a_head() -> None:
    assert await read_head(stream(b"")) is None


async def test_a_body_without_a_length_ends_with_the_connection() -> None:
    head, body = await answer(stream(b"HTTP/1.1 200 OK\r\n\r\nall there is"))
    assert (body, ends_with_connection(head)) == (b"all there is", True)


@pytest.mark.parametrize("status", [204, 304])
async def test_some_answers_have_no_body(status: int) -> None:
    head, body = await answer(stream(b"HTTP/1.1 %d x\r\n\r\nnext" % status))
    assert (body, ends_with_connection(head)) == (b"", False)


@pytest.mark.parametrize(
    ("first", "headers", "ends"),
    [
        ("HTTP/1.1 200 OK", {"content-length": "1"}, False),
        ("HTTP/1.1 200 OK", {"content-length": "1", "connection": "Keep-Alive, Close"}, True),
        ("HTTP/1.0 200 OK", {"content-length": "1"}, True),
        ("HTTP/1.0 200 OK", {"content-length": "1", "connection": "keep-alive"}, False),
    ],
)
def test_whether_more_can_come(first: str, headers: dict[str, str], ends: bool) -> None:
    assert ends_with_connection(Head(first, headers)) is ends


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nname : value\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n folded: line\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n: nameless\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\na",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1_0\r\n\r\n0123456789",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
    ],
)
async def test_what_is_no_answer_is_refused(data: bytes) -> None:
    with pytest.raises(HttpError):
        await answer(stream(data))


async def test_a_head_without_end_is_refused() -> None:
    with pytest.raises(HttpError, match="too long"):
        await read_head(stream(b"x" * 1000, limit=100))


@given(st.binary(max_size=60), st.sampled_from([ANSWER, CHUNKED]), st.data())
def test_changed_bytes_give_an_answer_or_an_error(noise: bytes, sound: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(sound)))
    end = data.draw(st.integers(at, len(sound)))
    changed = sound[:at] + noise + sound[end:]

    async def read() -> None:
        with suppress(HttpError, AssertionError):
            await answer(stream(changed))

    asyncio.run(read())
