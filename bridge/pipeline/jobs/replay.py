"""replay: an archive back into topics, each partition in its order, its records with their times."""

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bridge.pipeline import options
from bridge.pipeline.context import Context
from bridge.pipeline.errors import OK, Usage
from bridge.pipeline.files import files_to_read
from bridge.pipeline.frames import archive_frame
from bridge.pipeline.moves import archives
from bridge.pipeline.moves.appending import Appender, Source, create_targets, move, prepare_targets
from bridge.pipeline.moves.archives import ArchiveToRead
from bridge.pipeline.options import Position
from bridge.pipeline.plan import Bounds, continued, describe, resolve
from bridge.pipeline.ranges import Partition, TopicRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME = "replay"
HELP = "an archive back into topics"
EXAMPLES = (
    ("all of an archive", "--archive /data/orders --bootstrap bridge:9092"),
    ("a day of it, under another name",
     "--archive /data/orders --bootstrap bridge:9092 --from 2026-01-01 --to 2026-01-02 --map orders=orders-2026-01-01"),
)  # fmt: skip
ENDS = {3: "a part of the archive is missing, or something else has written to the target"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the job's options."""
    parser.add_argument("--archive", metavar="DIR", required=True)
    options.add_endpoint(parser, help_text="the Kafka endpoint to write to")
    options.add_selection(parser, required=False)
    options.add_appending(parser)


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Do the job."""
    endpoint, chunk = options.endpoint_options(arguments), options.chunk_size(arguments)
    cluster, bounds, counts = _contents(arguments, context)
    names = options.topic_names(arguments, {key.topic for key in bounds})
    # asked before a time is looked up, which takes Spark
    missing = prepare_targets(endpoint, names, list(bounds))
    asked = _asked(arguments, context, bounds)
    if not asked:
        raise Usage("there is nothing between --from and --to")
    context.progress.note(describe(asked))
    if arguments.dry_run:
        context.progress.note(f"topics to create: {', '.join(missing) or 'none'}")
        return OK

    def read(ranges: list[TopicRange]) -> "DataFrame":
        return _in_order(archive_frame(context.spark, arguments.archive, ranges), len(ranges))

    source = Source(cluster, read)
    appender = Appender(context.spark, source, endpoint, names, options.appending(arguments))
    with appender.alone():
        create_targets(endpoint, missing, {names[topic]: counts[topic] for topic in names})
        if missing:
            context.progress.note(f"created {', '.join(missing)}")
        done = appender.resume(asked, bounds)
        left = continued(asked, done, bounds)
        written = move(appender, left, context, chunk, arguments.rate)
    context.report.set(
        written=written,
        resumed={str(key): offset for key, offset in done.items()},
        ranges=[[each.topic, each.partition, each.start, each.until] for each in asked],
    )
    return OK


def _contents(
    arguments: argparse.Namespace, context: Context
) -> tuple[str | None, dict[Partition, Bounds], dict[str, int]]:
    """The cluster that was archived, what there is of the topics chosen, and how many partitions they had."""
    archive = ArchiveToRead(files_to_read(arguments.archive, lambda: context.spark))
    cluster = archive.existing().get("cluster")
    manifests = archive.manifests()
    bounds = archives.bounds(manifests)
    chosen = options.selection(arguments).chosen({key.topic for key in bounds})
    counts = archive.partitions(len(manifests) - 1) if manifests else {}
    return cluster, {key: held for key, held in bounds.items() if key.topic in chosen}, counts


def _asked(arguments: argparse.Namespace, context: Context, bounds: Mapping[Partition, Bounds]) -> list[TopicRange]:
    chosen = options.selection(arguments)
    at_start, at_until = (_at(arguments, context, side) for side in (chosen.start, chosen.until))
    return resolve(bounds, chosen.start, chosen.until, at_start, at_until)


def _at(arguments: argparse.Namespace, context: Context, side: Position) -> dict[Partition, int | None]:
    """The first offset of each partition at a time, as Kafka would answer."""
    from pyspark.sql import functions as f

    if side.time is None:
        return {}
    young = archive_frame(context.spark, arguments.archive).where(f.unix_millis("timestamp") >= side.time)
    found = young.groupBy("topic", "partition").agg(f.min("offset").alias("offset")).collect()
    return {Partition(row["topic"], row["partition"]): row["offset"] for row in found}


def _in_order(frame: "DataFrame", partitions: int) -> "DataFrame":
    """All rows of a partition in one task, by offset."""
    return frame.repartition(partitions, "topic", "partition").sortWithinPartitions("topic", "partition", "offset")
