"""The topics in a consumer's metadata."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.groups.classic.subscription import topics


def _metadata(*names: bytes, version: int = 0, count: int | None = None, rest: bytes = b"") -> bytes:
    body = b"".join(struct.pack(">h", len(name)) + name for name in names)
    return struct.pack(">hi", version, len(names) if count is None else count) + body + rest


@pytest.mark.parametrize("version", range(4))
def test_the_topics_stand_first_in_every_version(version: int) -> None:
    assert topics(_metadata(b"a", b"b", version=version, rest=b"\xff\xff\xff\xff more")) == frozenset(("a", "b"))
    assert topics(_metadata(version=version)) == frozenset()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        _metadata(version=-1),
        _metadata(count=-1),
        _metadata(b"a", count=2),
        _metadata(b"abc")[:-1],
        struct.pack(">hih", 0, 1, -1),
    ],
)
def test_anything_else_is_not_known(data: bytes) -> None:
    assert topics(data) is None


@given(st.binary(max_size=64))
def test_no_bytes_break_it(data: bytes) -> None:
    topics(data)
