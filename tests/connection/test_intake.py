from __future__ import annotations

import pytest

from bridge.connection.intake import is_produce


@pytest.mark.parametrize(
    ("frame", "told"),
    [
        pytest.param(b"\0\0\0\x09", True, id="Produce"),
        pytest.param(b"\0\x01\0\x0b", False, id="Fetch"),
        pytest.param(b"\x01\0\0\0", False, id="no API of Kafka"),
        pytest.param(b"\0\0", True, id="no more than a key"),
        pytest.param(b"\0", False, id="half a key"),
        pytest.param(b"", False, id="nothing"),
    ],
)
def test_a_produce_is_told_by_its_api_key(frame: bytes, told: bool) -> None:
    assert is_produce(memoryview(frame)) is told
