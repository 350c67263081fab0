"""What `kafka-consumer-groups` prints, and `kafka-transactions`."""

from __future__ import annotations

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


def table(printed: str, first: str = "GROUP") -> list[dict[str, str]]:
    """The rows of what the tool prints, by its headings; `first`: the first of them."""
    rows = [line.split() for line in printed.splitlines() if line.strip()]
    headings = next(n for n, row in enumerate(rows) if row[0] == first)
    return [dict(zip(rows[headings], row, strict=False)) for row in rows[headings + 1 :]]
