"""The headers that say where a record came from, which anyone can write."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from bridge.pipeline.provenance import TIMESTAMP, true_timestamp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OWN = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (b"1234", 1234),
        (b"soon", None),
        (b"1.5", None),
        (b"9" * 20, None),
        (b"\xff", None),
        (b"", None),
        (None, None),
    ],
)
def test_a_header_that_is_no_time_leaves_the_record_its_own(
    spark: SparkSession, header: bytes | None, expected: int | None
) -> None:
    """A job would end at it, and again each time that it is started."""
    columns = "headers array<struct<key: string, value: binary>>, timestamp timestamp"
    frame = spark.createDataFrame([([(TIMESTAMP, header)], _OWN)], columns)
    told = frame.select(true_timestamp().alias("time")).collect()[0].time
    assert told == (int(1000 * _OWN.timestamp()) if expected is None else expected)
