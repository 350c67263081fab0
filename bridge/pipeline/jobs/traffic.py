"""traffic: what goes through topics: rates, sizes, keys, gaps, lateness, and how far groups are behind."""

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bridge.pipeline import options
from bridge.pipeline.context import Context
from bridge.pipeline.endpoint import KafkaEndpoint
from bridge.pipeline.errors import OK, Usage
from bridge.pipeline.frames import kafka_frame
from bridge.pipeline.options import EndpointOptions
from bridge.pipeline.plan import describe
from bridge.pipeline.ranges import TopicRange, total
from bridge.pipeline.reports import measures, pages, traffic_report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "traffic"
HELP = "measure what goes through topics: a report with plots, and Parquet"
EXAMPLES = (
    ("a report with plots", "--bootstrap kafka:9092 --topics orders --groups billing --out traffic"),
)  # fmt: skip
ENDS = {3: "records are gone while they are read"}
_PARTITIONS = (
    "topic string, partition int, `from` long, `to` long, records long, bytes long, largest long, null_keys long, "
    "tombstones long, late long, latest_by long, gaps long, sizes struct<p50: long, p90: long, p99: long>, first long, "
    "last long"
)
_LAG = "measured string, `group` string, topic string, partition int, committed long, end long, lag long"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the job's options."""
    options.add_endpoint(parser)
    options.add_selection(parser)
    parser.add_argument(
        "--out", metavar="DIR", type=Path, required=True,
        help="the report, its plots and Parquet; runs into the same directory make the trend of the lag",
    )  # fmt: skip
    parser.add_argument("--groups", metavar="A,B", default="", help="groups whose lag to measure")
    parser.add_argument("--top", metavar="N", type=int, default=20, help="most frequent keys (default: %(default)s)")
    parser.add_argument("--show-keys", action="store_true", help="name those keys in the report")


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Do the job."""
    endpoint, chosen = options.endpoint_options(arguments), options.selection(arguments)
    groups = [name.strip() for name in arguments.groups.split(",") if name.strip()]
    if arguments.top < 1:
        raise Usage("--top must be positive")
    if arguments.out.exists() and not arguments.out.is_dir():
        raise Usage(f"{arguments.out} is no directory")
    with KafkaEndpoint(endpoint) as asked:
        topics = chosen.chosen(asked.topics())
        bounds = asked.bounds(topics)
        ranges = asked.ranges(chosen, bounds)
        measured = datetime.now(UTC).isoformat(timespec="seconds")
        lag = [{"measured": measured, **row} for group in groups for row in _lag_of(asked, group, set(topics))]
    if not ranges:
        raise Usage("there is nothing between --from and --to")
    context.progress.note(describe(ranges))
    if arguments.dry_run:
        return OK
    context.progress.begin(total(ranges))
    facts = {"endpoint": endpoint.bootstrap, "measured": measured, **_measure(arguments, context, endpoint, ranges)}
    facts["lag"] = _with_earlier(context.spark, arguments.out, lag)
    written = pages.write(arguments.out, "traffic", traffic_report.report(facts))
    for path in written:
        context.progress.note(f"{path}")
    context.report.set(**facts)
    return OK


def _measure(
    arguments: argparse.Namespace, context: Context, endpoint: EndpointOptions, ranges: list[TopicRange]
) -> dict[str, Any]:
    """Read the records once, then measure their outlines."""
    from pyspark.sql import functions as f

    frame = kafka_frame(context.spark, endpoint, ranges)
    rows = measures.outlines(frame, keys=arguments.show_keys).persist()
    try:
        partitions = measures.by_partition(rows, ranges)
        context.progress.advance(sum(each["records"] for each in partitions))
        width = measures.bucket_width(partitions)
        times = measures.by_time(rows, width).persist()
        _keep(times, arguments.out / "times")
        _keep(context.spark.createDataFrame(partitions, _PARTITIONS), arguments.out / "partitions")
        return {
            "partitions": partitions,
            "bucket_ms": width,
            "times": [row.asDict() for row in times.withColumn("start", f.unix_millis("start")).collect()],
            "keys": measures.by_key(rows, arguments.top),
        }
    finally:
        rows.unpersist()


def _keep(frame: "DataFrame", directory: Path) -> None:
    frame.coalesce(1).write.mode("overwrite").parquet(directory.absolute().as_uri())


def _lag_of(endpoint: KafkaEndpoint, group: str, topics: set[str]) -> list[dict[str, Any]]:
    committed = {key: value.offset for key, value in endpoint.committed(group).items() if key.topic in topics}
    if not committed:
        raise Usage(f"group {group} has committed nothing in these topics")
    ends = endpoint.ends(committed)
    return [
        {
            "group": group,
            "topic": key.topic,
            "partition": key.number,
            "committed": offset,
            "end": ends[key],
            "lag": max(ends[key] - offset, 0),
        }
        for key, offset in sorted(committed.items())
    ]


def _with_earlier(spark: "SparkSession", out: Path, lag: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add this run's lag to those in the directory; all of them."""
    kept = out / "lag"
    if lag:
        spark.createDataFrame(lag, _LAG).coalesce(1).write.mode("append").parquet(kept.absolute().as_uri())
    if not kept.exists():
        return []
    rows = spark.read.schema(_LAG).parquet(kept.absolute().as_uri()).orderBy("measured", "group", "topic", "partition")
    return [row.asDict() for row in rows.collect()]
