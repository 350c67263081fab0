"""archive: topics to Parquet files, each record once for every reader of Parquet.

A batch is a set of offset ranges. Its plan is kept before its files are written, and its files lie in directories of
its own, so that a batch that was interrupted is written once more over itself and nothing is there twice.
"""

import argparse
import time
import uuid
from functools import cached_property
from typing import TYPE_CHECKING, Any

from bridge.pipeline import options
from bridge.pipeline.comparison.sums import batch_digest, batch_sums
from bridge.pipeline.context import Context
from bridge.pipeline.endpoint import KafkaEndpoint
from bridge.pipeline.errors import OK, DataLoss, Usage
from bridge.pipeline.files import Files, files_to_read
from bridge.pipeline.frames import kafka_frame
from bridge.pipeline.moves import archives
from bridge.pipeline.moves.archives import Archive, ArchiveToRead, Manifest
from bridge.pipeline.plan import Bounds, chunks, continued, describe
from bridge.pipeline.ranges import Partition, TopicRange, partition_counts, total

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME = "archive"
HELP = "topics to Parquet files, once or continuously"
EXAMPLES = (
    ("what there is now; the same command goes on later", "--bootstrap kafka:9092 --topics orders --out /data/orders"),
    ("until stopped, by the hour", "--bootstrap kafka:9092 --pattern 'shop-.*' --out s3a://lake/shop --every 60"),
)  # fmt: skip
ENDS = {3: "records are gone at the source, or a batch was not read whole"}
_DAYS, _HOURS = ["date"], ["date", "hour"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the job's options."""
    options.add_endpoint(parser)
    options.add_selection(parser)
    parser.add_argument(
        "--out", metavar="DIR", required=True, help="a new directory, or one that this job goes on with"
    )
    parser.add_argument("--partition-by", choices=["date", "hour"], default="date", help="(default: %(default)s)")
    parser.add_argument("--batch", metavar="N", type=int, default=1_000_000, help="records a batch, about")
    parser.add_argument("--compression", default="zstd", choices=["zstd", "snappy", "gzip", "none"])
    parser.add_argument(
        "--every",
        metavar="SECONDS",
        type=options.positive_seconds,
        help="continue until stopped: look for more so often",
    )


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Do the job."""
    job = _Job(arguments, context)
    if arguments.dry_run:
        context.progress.note(describe(job.plan_without_spark()))
        return OK
    job.check()
    with job.archive.files.alone(f"{archives.STATE}/lock"):
        job.open()
        job.round()
        while arguments.every is not None:
            time.sleep(arguments.every)
            context.go_on()
            job.round()
    return OK


class _Job:
    """One run: an endpoint, a selection, an archive."""

    def __init__(self, arguments: argparse.Namespace, context: Context) -> None:
        self._arguments = arguments
        self._context = context
        self._endpoint = options.endpoint_options(arguments)
        self._selection = options.lasting_selection(arguments)
        if arguments.batch < 1:
            raise Usage("--batch must be positive")
        self._written = {"records": 0, "bytes": 0, "batches": 0}
        # a wrong argument is refused before Spark starts
        asked = self.plan_without_spark()
        self._empty = not asked

    @cached_property
    def archive(self) -> Archive:
        """The archive, made when it is needed: it needs Spark."""
        return Archive(Files(self._context.spark, self._arguments.out))

    def plan_without_spark(self) -> list[TopicRange]:
        """What the selection means, as if nothing were archived yet."""
        return self._look()[0]

    def check(self) -> None:
        """See that the place is empty, or an archive that was begun with the same words; nothing is written, no lock
        either.
        """
        archive = ArchiveToRead(files_to_read(self._arguments.out, lambda: self._context.spark))
        about = archive.about()
        if about is None:
            if self._empty:
                raise Usage("there is nothing between --from and --to")
            return
        for name, value in self._about().items():
            if about.get(name) != value:
                raise Usage(f"{archive.files} was begun with {name} {about.get(name)}, not {value}")

    def open(self) -> None:
        """Make the archive where there is none."""
        if self.archive.about() is None:
            self.archive.begin({**self._about(), "id": str(uuid.uuid4())})

    def round(self) -> None:
        """Archive what there is now and is not archived."""
        archive = self.archive
        manifests = archive.manifests()
        done, number = archives.ends(manifests), len(manifests)
        interrupted = archive.interrupted(number)
        if interrupted is not None:
            self._context.progress.note(f"batch {number} was interrupted: writing it once more")
            done.update(self._batch(archive, number, interrupted))
            number += 1
        asked, bounds = self._look()
        left = continued(asked, done, bounds)
        self._context.progress.begin(total(left))
        for ranges in chunks(left, self._arguments.batch):
            self._context.go_on()
            archive.plan(number, ranges, partition_counts(bounds))
            self._batch(archive, number, ranges)
            number += 1

    def _look(self) -> tuple[list[TopicRange], dict[Partition, Bounds]]:
        with KafkaEndpoint(self._endpoint) as endpoint:
            bounds = endpoint.bounds(self._selection.chosen(endpoint.topics()))
            return endpoint.ranges(self._selection, bounds), bounds

    def _about(self) -> dict[str, Any]:
        with KafkaEndpoint(self._endpoint) as endpoint:
            cluster = endpoint.cluster_id()
        which = {"pattern": self._selection.pattern, "topics": sorted(self._selection.topics)}
        return {"cluster": cluster, **which, "partition_by": self._arguments.partition_by}

    def _batch(self, archive: Archive, number: int, ranges: list[TopicRange]) -> dict[Partition, int]:
        manifest = _write(archive, number, ranges, self._frame(ranges), self._arguments)
        archive.finish(manifest)
        self._written = {
            "records": self._written["records"] + manifest.records,
            "bytes": self._written["bytes"] + manifest.bytes,
            "batches": self._written["batches"] + 1,
        }
        self._context.report.set(archive=str(archive.files), **self._written)
        self._context.progress.advance(manifest.records, batch=number)
        return {each.key: each.until for each in ranges}

    def _frame(self, ranges: list[TopicRange]) -> "DataFrame":
        return kafka_frame(self._context.spark, self._endpoint, ranges)


def _write(
    archive: Archive, number: int, ranges: list[TopicRange], frame: "DataFrame", arguments: argparse.Namespace
) -> Manifest:
    """Write a batch's files. The sums are taken of what Kafka gave, so that `verify` can hold the files to them."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    places = _HOURS if arguments.partition_by == "hour" else _DAYS
    seen = Observation()
    observed = frame.observe(seen, *batch_sums())
    dated = observed.withColumn("date", f.date_format("timestamp", "yyyy-MM-dd"))
    if "hour" in places:
        dated = dated.withColumn("hour", f.date_format("timestamp", "HH"))
    columns = ["topic", *places, "batch"]
    # in the order of offsets, which keeps files small and lets readers pass over what they do not need
    rows = dated.withColumn("batch", f.lit(archives.batch_name(number))).sortWithinPartitions(*columns, "offset")
    writer = rows.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
    writer.option("compression", arguments.compression).partitionBy(*columns).parquet(str(archive.files))
    sums = seen.get
    span = total(ranges)
    if sums["records"] > span:
        raise DataLoss(f"batch {number}: {sums['records']} records came for {span} offsets")
    return Manifest(number, tuple(ranges), sums["records"], sums["bytes"], batch_digest(sums))
