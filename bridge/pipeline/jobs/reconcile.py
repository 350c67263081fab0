"""reconcile: whether two sides hold the same records, and if not, which ones differ and how.

Both sides are read up to the ends they have when the job begins. Sums of hashes are compared first; only partitions in
which they differ are looked at record by record.
"""

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bridge.pipeline import options
from bridge.pipeline.comparison import sides
from bridge.pipeline.comparison.compare import Digest, Verdict, differing, digests, verdicts
from bridge.pipeline.comparison.drilldown import findings
from bridge.pipeline.context import Context
from bridge.pipeline.digest import hashed
from bridge.pipeline.errors import OK, Differences, Usage
from bridge.pipeline.options import Position
from bridge.pipeline.plan import describe
from bridge.pipeline.ranges import Partition, TopicRange, total

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME = "reconcile"
HELP = "compare two sides record by record: Kafka, a bridge, an archive, or Pulsar itself"
EXAMPLES = (
    ("two endpoints", "--a kafka:9092 --b bridge:9092 --topics orders --report findings.json"),
    ("past the bridge", "--a kafka:9092 --b-native pulsar://broker:6650/public/default --topics orders"),
)  # fmt: skip
ENDS = {1: "the sides differ", 3: "records are gone while they are compared"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the job's options."""
    sides.add_side(parser, "a", native=False)
    sides.add_side(parser, "b", native=True)
    options.add_selection(parser)
    same = "(default: as on side a; all, where that is given in offsets)"
    parser.add_argument("--b-from", metavar="WHERE", help=f"where side b begins {same}")
    parser.add_argument("--b-to", metavar="WHERE", help=f"where it ends {same}")
    parser.add_argument("--map", metavar="A=B", action="append", default=[], help="topic A is called B on side b")
    parser.add_argument("--timestamps", choices=["compare", "ignore"], default="compare", help="(default: %(default)s)")


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Do the job."""
    comparison = _Comparison(arguments, context)
    context.progress.note(comparison.plan())
    if arguments.dry_run:
        return OK
    found = comparison.compare()
    for line in comparison.lines(found):
        context.progress.note(line)
    context.report.set(**comparison.facts(found))
    if found:
        raise Differences(f"{len(found)} of {len(comparison.keys)} partitions differ")
    return OK


class _Comparison:
    """Two sides under the topic names of side a."""

    def __init__(self, arguments: argparse.Namespace, context: Context) -> None:
        self._context = context
        self._times = arguments.timestamps == "compare"
        self._a, self._b = sides.side(arguments, "a", context), sides.side(arguments, "b", context)
        chosen = options.selection(arguments)
        topics = chosen.chosen(self._a.topics() or set())
        self._names = options.topic_names(arguments, topics)
        self._old = {new: old for old, new in self._names.items()}
        start, until = (
            _for_b(arguments.b_from, chosen.start, "earliest"),
            _for_b(arguments.b_to, chosen.until, "latest"),
        )
        self._ranges_a = sides.ranges(self._a, topics, chosen.start, chosen.until)
        # looked at before anything is read: `repair` refuses a side that has grown since
        self._held_b = self._b.bounds(self._names.values())
        self._ranges_b = sides.ranges(self._b, self._names.values(), start, until)
        if not self._ranges_a and not self._ranges_b:
            raise Usage("there is nothing to compare: both sides are empty between --from and --to")
        self._sums: tuple[Mapping[Partition, Digest], Mapping[Partition, Digest]] = ({}, {})
        self.keys = sorted({each.key for each in (*self._ranges_a, *self._renamed())})

    def plan(self) -> str:
        """What will be read."""
        return f"side a, {self._a}\n{describe(self._ranges_a)}\nside b, {self._b}\n{describe(self._ranges_b)}"

    def compare(self) -> dict[Partition, Verdict]:
        """The partitions that differ, and how."""
        progress = self._context.progress
        progress.begin(total(self._ranges_a) + total(self._ranges_b))
        a, b = self._rows_a(self._ranges_a), self._rows_b(self._ranges_b)
        sums_a = digests(a, self._ranges_a)
        progress.advance(sum(each.records for each in sums_a.values()), side="a")
        sums_b = digests(b, self._renamed())
        progress.advance(sum(each.records for each in sums_b.values()), side="b")
        self._sums = sums_a, sums_b
        suspects = set(differing(sums_a, sums_b))
        if not suspects:
            return {}
        progress.note(f"looking at {len(suspects)} partitions record by record")
        # the sums also differ where one side has gaps in its offsets and the records are the same
        a = self._rows_a([each for each in self._ranges_a if each.key in suspects])
        b = self._rows_b(
            [each for each in self._ranges_b if Partition(self._old[each.topic], each.partition) in suspects]
        )
        return verdicts(findings(a, b))

    def lines(self, found: Mapping[Partition, Verdict]) -> list[str]:
        """The verdicts as a table."""
        head = f"{'topic':40} {'partition':>9} {'records a':>14} {'records b':>14}  verdict"
        return [head, *(self._line(key, found.get(key, Verdict())) for key in self.keys)]

    def facts(self, found: Mapping[Partition, Verdict]) -> dict[str, Any]:
        """The verdicts for the report; `repair` reads them."""
        partitions = [self._facts(key, found.get(key, Verdict())) for key in self.keys]
        verdict = "different" if found else "identical"
        return {"a": str(self._a), "b": str(self._b), "verdict": verdict, "partitions": partitions}

    def _line(self, key: Partition, verdict: Verdict) -> str:
        a, b = (sums.get(key, Digest()).records for sums in self._sums)
        return f"{key.topic:40} {key.number:>9} {a:>14,} {b:>14,}  {verdict}"

    def _facts(self, key: Partition, verdict: Verdict) -> dict[str, Any]:
        by_key_a = {each.key: each for each in self._ranges_a}
        by_key_b = {each.key: each for each in self._renamed()}
        return {
            "topic": key.topic,
            "b_topic": self._names[key.topic],
            "partition": key.number,
            "a": _side_facts(by_key_a.get(key), self._sums[0].get(key, Digest())),
            "b": _side_facts(by_key_b.get(key), self._sums[1].get(key, Digest())) | {"end": self._end(key)},
            "verdict": str(verdict),
            "counts": verdict.counts,
            "examples": verdict.examples,
            "missing": verdict.missing,
        }

    def _end(self, key: Partition) -> int:
        held = self._held_b.get(Partition(self._names[key.topic], key.number))
        return 0 if held is None else held.latest

    def _renamed(self) -> list[TopicRange]:
        return [TopicRange(self._old[each.topic], each.partition, each.start, each.until) for each in self._ranges_b]

    def _rows_a(self, ranges: Sequence[TopicRange]) -> "DataFrame":
        return hashed(self._a.frame(ranges), times=self._times)

    def _rows_b(self, ranges: Sequence[TopicRange]) -> "DataFrame":
        rows = hashed(self._b.frame(ranges), times=self._times)
        renamed: dict[Any, Any] = {new: old for new, old in self._old.items() if new != old}
        return rows.replace(renamed, subset=["topic"]) if renamed else rows


def _side_facts(held: TopicRange | None, digest: Digest) -> dict[str, int]:
    return {
        "from": 0 if held is None else held.start,
        "to": 0 if held is None else held.until,
        "records": digest.records,
    }


def _for_b(given: str | None, as_a: Position, otherwise: options.Named) -> Position:
    if given is not None:
        return options.position(given)
    return Position(named=otherwise) if as_a.offsets is not None else as_a
