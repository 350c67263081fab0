from __future__ import annotations

import pytest

from bridge.connection.budget import Budget
from bridge.connection.intake import Intake
from bridge.telemetry.instruments import Gauge


def holding(*frames: bytes) -> Intake:
    scratch = memoryview(bytearray(1024))
    intake = Intake(1024, Budget(1024 * 1024, Gauge()), scratch, lambda: None, lambda: None, least_bytes=0)
    sent = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    intake.buffer()[: len(sent)] = sent
    intake.received(len(sent), 0.0)
    return intake


@pytest.mark.parametrize(
    ("frame", "is_produce"),
    [
        pytest.param(b"\0\0\0\x09", True, id="Produce"),
        pytest.param(b"\0\x01\0\x0b", False, id="Fetch"),
        pytest.param(b"\x01\0\0\0", False, id="no API of Kafka"),
        pytest.param(b"\0\0", True, id="no more than a key"),
        pytest.param(b"\0", False, id="half a key"),
        pytest.param(b"", False, id="nothing"),
    ],
)
def test_a_produce_is_told_by_its_api_key(frame: bytes, is_produce: bool) -> None:
    assert holding(frame).is_produce_next is is_produce


def test_it_is_told_of_the_first_of_the_frames() -> None:
    intake = holding(b"\0\0", b"\0\x01", b"\0\0")
    told = []
    while intake.frames:
        told.append(intake.is_produce_next)
        intake.next()
    assert told == [True, False, True]
