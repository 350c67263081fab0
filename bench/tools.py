"""Reads what Kafka's performance tools print."""

import re
from typing import NamedTuple

from bridge.errors import BridgeError

_PRODUCED = re.compile(r"^(\d+) records sent, ([\d.]+) records/sec \(([\d.]+) MB/sec\), .* 99\.9th\.?$", re.MULTILINE)


class ToolError(BridgeError):
    """A tool printed what it should not."""


class Consumed(NamedTuple):
    """What ConsumerPerformance tells."""

    records: int
    seconds: float
    """Without the time in which the group was formed."""


def produced_seconds(printed: str, records: int) -> float:
    """How long ProducerPerformance took: its last line has the total."""
    found = _PRODUCED.findall(printed)
    if not found or int(found[-1][0]) != records:
        raise ToolError(f"the producer did not send {records} records:\n{printed[-2000:]}")
    return records / float(found[-1][1])


def consumed(printed: str, records: int) -> Consumed:
    """Its line of ten columns; --hide-header leaves no other."""
    for line in reversed(printed.splitlines()):
        columns = [column.strip() for column in line.split(",")]
        if len(columns) == 10:
            count, milliseconds = int(columns[4]), float(columns[7])
            if count < records:
                raise ToolError(f"only {count} of {records} records were read")
            return Consumed(count, milliseconds / 1000)
    raise ToolError(f"the consumer told nothing:\n{printed[-2000:]}")
