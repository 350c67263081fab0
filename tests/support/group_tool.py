"""What `kafka-consumer-groups` prints."""

from __future__ import annotations

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


def table(printed: str) -> list[dict[str, str]]:
    """The rows of what the group tool prints, by its headings."""
    rows = [line.split() for line in printed.splitlines() if line.strip()]
    headings = next(n for n, row in enumerate(rows) if row[0] == "GROUP")
    return [dict(zip(rows[headings], row, strict=False)) for row in rows[headings + 1 :]]
