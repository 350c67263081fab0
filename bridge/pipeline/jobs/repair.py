"""repair: write what `reconcile` found missing on side b, behind its records: the order is not restored."""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bridge.pipeline import options
from bridge.pipeline.comparison import sides
from bridge.pipeline.context import Context
from bridge.pipeline.digest import PARTITION
from bridge.pipeline.endpoint import KafkaEndpoint
from bridge.pipeline.errors import OK, DataLoss, Usage
from bridge.pipeline.frames import renamed
from bridge.pipeline.moves.sink import write
from bridge.pipeline.ranges import Partition, TopicRange, total

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME = "repair"
HELP = "write what reconcile found missing on side b, behind what is there"
EXAMPLES = (
    ("after `reconcile --report findings.json`", "--findings findings.json --a kafka:9092 --b bridge:9092"),
)  # fmt: skip
ENDS = {3: "records are gone at the source, or something else writes to the target"}
_ORDER = "order is not restored: missing records are written behind all others"


@dataclass(frozen=True, slots=True)
class _Damage:
    """One partition that lacks records: which ones, and its name and end on side b at that time."""

    missing: tuple[TopicRange, ...]
    target: Partition
    end: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the job's options."""
    parser.add_argument("--findings", metavar="FILE", type=Path, required=True, help="a report of reconcile")
    sides.add_side(parser, "a", native=False)
    options.add_endpoint(parser, "b", "side b, which lacks them")


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Do the job."""
    damages = _damages(arguments.findings)
    endpoint = options.endpoint_options(arguments, "b")
    _refuse_stale(endpoint, damages)
    whole = sum(total(damage.missing) for damage in damages)
    for damage in damages:
        context.progress.note(f"{damage.target}: {total(damage.missing):,} missing")
    context.progress.note(_ORDER)
    if arguments.dry_run:
        return OK
    context.progress.begin(whole)
    rows = _missing_rows(sides.side(arguments, "a", context), damages)
    names = {damage.missing[0].topic: damage.target.topic for damage in damages}
    write(renamed(rows, names), endpoint)
    grown = _growth(endpoint, damages)
    context.progress.advance(grown)
    context.report.set(written=grown, note=_ORDER)
    if grown != whole:
        raise DataLoss(f"{whole:,} records were to be written and side b has grown by {grown:,}: reconcile again")
    return OK


def _damages(path: Path) -> list[_Damage]:
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        if report["job"] != "reconcile":
            raise KeyError("job")
        found = [_damage(facts) for facts in report["partitions"] if facts["missing"]]
    except (OSError, ValueError, KeyError, TypeError):
        raise Usage(f"{path} is no report of reconcile") from None
    if not found:
        raise Usage(f"{path}: nothing is missing")
    return found


def _damage(facts: Mapping[str, Any]) -> _Damage:
    missing = [TopicRange(facts["topic"], facts["partition"], start, until) for start, until in facts["missing"]]
    return _Damage(tuple(missing), Partition(facts["b_topic"], facts["partition"]), facts["b"]["end"])


def _refuse_stale(options: options.EndpointOptions, damages: Sequence[_Damage]) -> None:
    """A side that has grown may have been repaired already: nothing is written twice."""
    with KafkaEndpoint(options) as endpoint:
        partitions = endpoint.partitions(endpoint.topics() & {damage.target.topic for damage in damages})
        for damage in damages:
            if damage.target.number not in partitions.get(damage.target.topic, []):
                raise Usage(f"{options.bootstrap} has no partition {damage.target}")
        ends = endpoint.ends([damage.target for damage in damages])
    for damage in damages:
        if ends[damage.target] != damage.end:
            raise Usage(
                f"{damage.target} ends at {ends[damage.target]} and did at {damage.end} when it was compared: "
                "reconcile again"
            )


def _missing_rows(side: sides.Side, damages: Sequence[_Damage]) -> "DataFrame":
    """The records, each partition's in its order in one task."""
    from pyspark.sql import functions as f

    hulls = [
        TopicRange(first.topic, first.partition, first.start, damage.missing[-1].until)
        for damage in damages
        for first in damage.missing[:1]
    ]
    rows = side.frame(hulls)
    wanted = rows.sparkSession.createDataFrame(
        [(each.topic, each.partition, each.start, each.until) for damage in damages for each in damage.missing],
        "topic string, partition int, start long, until long",
    )
    in_range = (
        (rows["topic"] == wanted["topic"])
        & (rows["partition"] == wanted["partition"])
        & (rows["offset"] >= wanted["start"])
        & (rows["offset"] < wanted["until"])
    )
    found = rows.join(f.broadcast(wanted), in_range, "left_semi")
    return found.repartition(len(hulls), *PARTITION).sortWithinPartitions(*PARTITION, "offset")


def _growth(options: options.EndpointOptions, damages: Sequence[_Damage]) -> int:
    with KafkaEndpoint(options) as endpoint:
        ends = endpoint.ends([damage.target for damage in damages])
    return sum(ends[damage.target] - damage.end for damage in damages)
