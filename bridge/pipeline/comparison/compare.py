"""Compares two sides partition by partition: sums of hashes first, then record by record where they differ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bridge.pipeline.digest import PARTITION, content_sums, place_sums
from bridge.pipeline.frames import small_frame
from bridge.pipeline.ranges import Partition, TopicRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EXAMPLES = 10
MAX_RANGES = 100_000  # of missing records that a report holds; it then has fewer of them than it counts


@dataclass(frozen=True, slots=True)
class Digest:
    """What one side holds of a partition, as sums by which two sides can be compared."""

    records: int = 0
    content: tuple[int, int] = (0, 0)
    places: tuple[int, int] = (0, 0)


@dataclass(slots=True)
class Verdict:
    """What was found in one partition: how many of each kind, the first few, and what is missing as ranges."""

    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    missing: list[tuple[int, int]] = field(default_factory=list)

    def __str__(self) -> str:
        found = [f"{count:,} {kind}" for kind, count in self.counts.items()]
        return ", ".join(found) or "identical"


def digests(rows: "DataFrame", ranges: Sequence[TopicRange]) -> dict[Partition, Digest]:
    """One scan. Positions count from the start of each range, so that the sides need not begin at the same offset."""
    from pyspark.sql import functions as f

    if not ranges:
        return {}
    starts = small_frame(
        rows.sparkSession,
        [{"topic": each.topic, "partition": each.partition, "start": each.start} for each in ranges],
        "topic string, partition int, start long",
    )
    sums = [f.count("*").alias("records"), *content_sums(), *place_sums(f.col("offset") - f.col("start"))]
    placed = rows.join(f.broadcast(starts), list(PARTITION))
    return {
        Partition(row.topic, row.partition): Digest(
            row.records, (row.content_low, row.content_high), (row.place_low, row.place_high)
        )
        for row in placed.groupBy(*PARTITION).agg(*sums).collect()
    }


def differing(a: Mapping[Partition, Digest], b: Mapping[Partition, Digest]) -> list[Partition]:
    """The partitions whose sums are not the same."""
    return sorted(key for key in a.keys() | b.keys() if a.get(key, Digest()) != b.get(key, Digest()))


def verdicts(findings: "DataFrame") -> dict[Partition, Verdict]:
    """What `drilldown.findings` found, by partition; those in which it found nothing are not named."""
    findings = findings.persist()
    found: dict[Partition, Verdict] = {}

    def of(row: Any) -> Verdict:
        return found.setdefault(Partition(row.topic, row.partition), Verdict())

    for row in findings.groupBy(*PARTITION, "kind").count().orderBy("kind").collect():
        of(row).counts[row.kind] = row["count"]
    for row in _first(findings).collect():
        facts = {"a_offset": row.a_offset, "b_offset": row.b_offset, "fields": row.fields}
        example = {name: value for name, value in facts.items() if value is not None}
        of(row).examples.setdefault(row.kind, []).append(example)
    for row in _missing(findings).limit(MAX_RANGES).collect():
        of(row).missing.append((row.start, row.until))
    return found


def _first(findings: "DataFrame") -> "DataFrame":
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    where = [f.coalesce("a_offset", "b_offset"), f.col("b_offset")]
    number = f.row_number().over(Window.partitionBy(*PARTITION, "kind").orderBy(*where))
    return findings.withColumn("number", number).where(f"number <= {EXAMPLES}").orderBy(*PARTITION, "kind", "number")


def _missing(findings: "DataFrame") -> "DataFrame":
    """Offsets that follow each other keep the same distance to their number: so runs are distinguished."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    number = f.row_number().over(Window.partitionBy(*PARTITION).orderBy("a_offset"))
    return (
        findings.where("kind = 'missing'")
        .withColumn("run", f.col("a_offset") - number)
        .groupBy(*PARTITION, "run")
        .agg(f.min("a_offset").alias("start"), (f.max("a_offset") + 1).alias("until"))
        .orderBy(*PARTITION, "start")
    )
