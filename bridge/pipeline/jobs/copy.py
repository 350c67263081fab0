"""copy: topics of one Kafka endpoint to another, once or for as long as there are writers, with what a move needs.

Either side may be the bridge. The target alone tells how far the copy has come, so that nothing else need be kept. A
copy in the other direction begins where this one ended, and so brings home what was written at the target since. The
offset map tells programs that keep offsets themselves where to go on, and translates what groups have committed.
"""

import argparse
from collections.abc import Mapping
from functools import partial
from typing import Any

from bridge.pipeline import options
from bridge.pipeline.context import Context
from bridge.pipeline.endpoint import Committed, KafkaEndpoint
from bridge.pipeline.errors import OK, Usage
from bridge.pipeline.frames import kafka_frame
from bridge.pipeline.moves.appending import Appender, Source, create_targets, move, prepare_targets
from bridge.pipeline.moves.checkpoints import Checkpoint, checkpoint_of, group_of
from bridge.pipeline.moves.mapping import KeptMap, refuse_other_directory
from bridge.pipeline.plan import Bounds, continued, describe
from bridge.pipeline.ranges import Partition, TopicRange, partition_counts

NAME = "copy"
HELP = "topics of one Kafka endpoint to another, either of them the bridge"
EXAMPLES = (
    ("what would be done", "--source kafka:9092 --target bridge:9092 --topics orders --dry-run"),
    ("under live writes, with groups' offsets",
     "--source kafka:9092 --target bridge:9092 --topics orders --follow 5 --groups billing --offset-map /data/map"),
    ("home again, what was written at the bridge since", "--source bridge:9092 --target kafka:9092 --topics orders"),
)  # fmt: skip
ENDS = {
    0: "done; with --follow: stopped by a signal, all is copied that was there then",
    3: "records are gone at the source, or something else has written to the target",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the job's options."""
    options.add_endpoint(parser, "source", "the Kafka endpoint to read")
    options.add_endpoint(parser, "target", "the Kafka endpoint to write to")
    options.add_selection(parser)
    options.add_appending(parser)
    parser.add_argument(
        "--follow", metavar="SECONDS", type=options.positive_seconds, help="go on until stopped: look for more so often"
    )
    parser.add_argument("--offset-map", metavar="DIR", help="write where each source range is in the target")
    parser.add_argument("--groups", metavar="A,B", help="commit at the target where these groups are at the source")


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Do the job."""
    job = _Copy(arguments, context)
    if arguments.dry_run:
        context.progress.note(f"topics to create: {', '.join(job.missing) or 'none'}")
        return OK
    job.open()
    with job.appender.alone():
        job.begin()
        with context.to_its_end():  # a signal ends it behind a chunk, if others are left
            job.round()
            ended = arguments.follow is None
            while not ended:
                ended = context.rest(arguments.follow)  # what was written until the signal is copied, too
                job.round()
        job.translate()
    return OK


class _Copy:
    """One run: two endpoints, a selection, how far each partition is copied."""

    def __init__(self, arguments: argparse.Namespace, context: Context) -> None:
        self._arguments = arguments
        self._context = context
        self._source = options.endpoint_options(arguments, "source")
        self._target = options.endpoint_options(arguments, "target")
        self._selection = options.lasting_selection(arguments)
        self._chunk = options.chunk_size(arguments)
        self._groups = [group.strip() for group in (arguments.groups or "").split(",") if group.strip()]
        asked, self._bounds = self._look()
        self._names = options.topic_names(arguments, {key.topic for key in self._bounds})
        self._about = self._identity()
        refuse_other_directory(arguments.offset_map, self._about)
        self.missing = prepare_targets(self._target, self._names, list(self._bounds))
        if not asked and arguments.follow is None and not self._groups:
            raise Usage("there is nothing between --from and --to")
        context.progress.note(describe(asked))
        self._copied: dict[Partition, int] = {}
        self._written = 0

    def open(self) -> None:
        """Start Spark, and read the map that is there; nothing is written yet."""
        read = partial(kafka_frame, self._context.spark, self._source)
        self._from = Source(self._about["source"], read)
        writing = options.appending(self._arguments)
        self.appender = Appender(self._context.spark, self._from, self._target, self._names, writing)
        self._map = KeptMap(self._context.spark, self._arguments.offset_map, self._names)
        self._map.open(self._about)

    def begin(self) -> None:
        """Make the targets that are missing, and see how far the others are."""
        counts = partition_counts(self._bounds)
        create_targets(self._target, self.missing, {self._names[topic]: counts[topic] for topic in self._names})
        if self.missing:
            self._context.progress.note(f"created {', '.join(self.missing)}")
        asked, bounds = self._look_again()
        self._copied = self.appender.resume(asked, bounds, self._other_way())
        self._context.report.set(resumed={str(key): offset for key, offset in self._copied.items()})

    def round(self) -> None:
        """Copy what there is now and is not copied."""
        asked, bounds = self._look_again()
        left = continued(asked, self._copied, bounds)
        self._written += move(self.appender, left, self._context, self._chunk, self._arguments.rate)
        self._remember(asked, bounds)
        if self._arguments.offset_map is not None or self._groups:
            copied = {key: (self._copied[key], self.appender.end(key)) for key in bounds if key in self._copied}
            self._map.extend(self._from, self._target, copied, bounds)
            self._map.keep(self._about)
        self._context.report.set(written=self._written)

    def _remember(self, asked: list[TopicRange], bounds: Mapping[Partition, Bounds]) -> None:
        """All that was asked for is copied, also where it held nothing."""
        everything = (self._selection.start.named, self._selection.until.named) == ("earliest", "latest")
        nothing = {key: held.latest for key, held in bounds.items()} if everything else {}
        for key, until in {**nothing, **{each.key: each.until for each in asked}}.items():
            self._copied[key] = max(until, self._copied.get(key, 0))

    def translate(self) -> None:
        """Commit at the target where the groups are at the source."""
        done = {}
        for group in self._groups:
            with KafkaEndpoint(self._source) as source:
                committed = {key: each for key, each in source.committed(group).items() if key in self._bounds}
            if not committed:
                raise Usage(f"group {group} has committed nothing for these topics")
            with KafkaEndpoint(self._target) as target:
                translated = self._translated(committed)
                target.commit(group, translated)
            done[group] = {
                str(key): [each.offset, translated[self.appender.target(key)].offset]
                for key, each in sorted(committed.items())
            }
            self._context.progress.note(f"group {group}: {len(translated)} offsets translated", offsets=done[group])
        self._context.report.set(groups=done)

    def _translated(self, committed: Mapping[Partition, Committed]) -> dict[Partition, Committed]:
        return {
            self.appender.target(key): Committed(
                self._map.offsets.translate(key, each.offset, self._copied.get(key, 0), self.appender.end(key)),
                each.metadata,
            )
            for key, each in committed.items()
        }

    def _other_way(self) -> dict[Partition, Checkpoint]:
        """How far a copy from the target to the source had come, by its targets."""
        with KafkaEndpoint(self._source) as source:
            committed = source.committed(group_of(self._about["target"]))
        found = {
            key: checkpoint_of(self.appender.target(key), each)
            for key, each in committed.items()
            if key in self._bounds
        }
        return {key: each for key, each in found.items() if each is not None}

    def _look(self) -> tuple[list[TopicRange], dict[Partition, Bounds]]:
        with KafkaEndpoint(self._source) as source:
            bounds = source.bounds(self._selection.chosen(source.topics()))
            return source.ranges(self._selection, bounds), bounds

    def _look_again(self) -> tuple[list[TopicRange], dict[Partition, Bounds]]:
        asked, bounds = self._look()
        if set(bounds) - set(self._bounds):
            raise Usage("topics or partitions were added: start the copy again, it continues where it stopped")
        return asked, bounds

    def _identity(self) -> dict[str, Any]:
        """Which copy this is; a topic is not copied onto itself."""
        with KafkaEndpoint(self._source) as source, KafkaEndpoint(self._target) as target:
            clusters = source.cluster_id(), target.cluster_id()
        same = clusters[0] == clusters[1] and clusters[0] is not None
        if (same or self._source.bootstrap == self._target.bootstrap) and any(o == n for o, n in self._names.items()):
            raise Usage("source and target are the same cluster: give the copies other names with --map")
        return {"source": clusters[0], "target": clusters[1], "topics": self._names}
