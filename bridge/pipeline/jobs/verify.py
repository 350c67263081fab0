"""verify: whether an archive's files hold what its manifests say."""

import argparse
from typing import TYPE_CHECKING, Any

from bridge.pipeline.comparison.sums import batch_digest, batch_sums
from bridge.pipeline.context import Context
from bridge.pipeline.errors import OK, DataLoss
from bridge.pipeline.files import files_to_read
from bridge.pipeline.frames import SCHEMA
from bridge.pipeline.moves import archives
from bridge.pipeline.moves.archives import ArchiveToRead, Manifest, batch_name
from bridge.pipeline.ranges import total

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "verify"
HELP = "hold an archive's files to its manifests"
EXAMPLES = (
    ("an archive", "--archive /data/orders"),
    ("by a script", "--archive /data/orders --progress quiet --json | jq .records"),
)  # fmt: skip
ENDS = {3: "the files are not what the manifests say"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the job's options."""
    parser.add_argument("--archive", metavar="DIR", required=True)


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Do the job."""
    archive = ArchiveToRead(files_to_read(arguments.archive, lambda: context.spark))
    archive.existing()
    manifests = archive.manifests()
    archives.bounds(manifests)
    context.progress.begin(sum(manifest.records for manifest in manifests))
    if arguments.dry_run:
        context.progress.note(f"{len(manifests)} batches to read")
        return OK
    found = batches(context.spark, arguments.archive) if manifests else {}
    wrong = [line for manifest in manifests if (line := problem(manifest, found.get(batch_name(manifest.batch))))]
    unknown = found.keys() - {batch_name(manifest.batch) for manifest in manifests}
    if archive.interrupted(len(manifests)) is not None:
        unknown.discard(batch_name(len(manifests)))
        context.progress.note(f"batch {len(manifests)} was interrupted: the next `archive` writes it once more")
    wrong += [f"batch {name} has files and no manifest" for name in sorted(unknown)]
    context.report.set(batches=len(manifests), problems=wrong)
    if wrong:
        raise DataLoss(f"{archive.files}: " + "; ".join(wrong[:5]))
    records, offsets = sum(each.records for each in manifests), sum(total(each.ranges) for each in manifests)
    context.report.set(records=records, offsets=offsets)
    context.progress.advance(records, batches=len(manifests), offsets=offsets)
    return OK


def batches(spark: "SparkSession", path: str) -> dict[str, dict[str, Any]]:
    """What the files of each batch hold, by the batch's name."""
    frame: DataFrame = spark.read.schema(f"{SCHEMA}, batch string").parquet(path)
    return {row["batch"]: row.asDict() for row in frame.groupBy("batch").agg(*batch_sums()).collect()}


def problem(manifest: Manifest, sums: dict[str, Any] | None) -> str | None:
    """What is wrong with a batch, in one line."""
    if sums is None:
        return f"batch {manifest.batch} has no files" if manifest.records else None
    if sums["records"] != manifest.records:
        return f"batch {manifest.batch} has {sums['records']} records instead of {manifest.records}"
    if sums["bytes"] != manifest.bytes or batch_digest(sums) != manifest.digest:
        return f"batch {manifest.batch} does not hold what was written: its digest differs"
    return None
