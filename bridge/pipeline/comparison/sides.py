"""What can be compared: a Kafka endpoint, an archive, or Pulsar itself."""

import argparse
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from bridge.pipeline import options
from bridge.pipeline.comparison.native import native_frame, native_ranges
from bridge.pipeline.context import Context
from bridge.pipeline.digest import PARTITION
from bridge.pipeline.endpoint import KafkaEndpoint
from bridge.pipeline.errors import Usage
from bridge.pipeline.files import files_to_read
from bridge.pipeline.frames import archive_frame, kafka_frame
from bridge.pipeline.moves import archives
from bridge.pipeline.moves.archives import ArchiveToRead
from bridge.pipeline.options import EndpointOptions, Position
from bridge.pipeline.plan import Bounds, resolve
from bridge.pipeline.pulsar.connection import Address, address
from bridge.pipeline.ranges import Partition, TopicRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Side(Protocol):
    """Where records are read from."""

    def topics(self) -> set[str] | None:
        """All topics; None if only the names asked for can be tried."""

    def bounds(self, topics: Collection[str]) -> dict[Partition, Bounds]:
        """What the partitions of topics hold now."""

    def at(self, position: Position, bounds: Mapping[Partition, Bounds]) -> dict[Partition, int | None]:
        """The first offsets at a position that is a time; nothing for others."""

    def frame(self, ranges: Sequence[TopicRange]) -> "DataFrame":
        """The records, in `frames.COLUMNS`."""


def add_side(parser: argparse.ArgumentParser, name: str, *, native: bool) -> None:
    """Add `--NAME HOST:PORT` with `--NAME-conf`, `--NAME-archive DIR` and `--NAME-native URL`."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(f"--{name}", metavar="HOST:PORT", help=f"side {name} is a Kafka endpoint")
    which.add_argument(f"--{name}-archive", metavar="DIR", help=f"side {name} is an archive")
    options.add_endpoint_conf(parser, name)
    if native:
        url = "pulsar://HOST:PORT[/TENANT/NAMESPACE]"
        which.add_argument(f"--{name}-native", metavar=url, help=f"side {name} is Pulsar itself, past any bridge")
        parser.add_argument(f"--{name}-native-token", metavar="FILE", type=Path, help="a token to show to Pulsar")


def side(arguments: argparse.Namespace, name: str, context: Context) -> Side:
    """What `add_side` was given on the command line."""
    archive: str | None = getattr(arguments, f"{name}_archive")
    if archive is not None:
        return _ArchiveSide(archive, context)
    url: str | None = getattr(arguments, f"{name}_native", None)
    if url is not None:
        return _NativeSide(address(url, _token(getattr(arguments, f"{name}_native_token"))), context)
    return _KafkaSide(options.endpoint_options(arguments, name), context)


def ranges(side: Side, topics: Collection[str], start: Position, until: Position) -> list[TopicRange]:
    """What two positions mean in these topics, now."""
    existing = side.topics()
    missing = [] if existing is None else sorted(set(topics) - existing)
    if missing:
        raise Usage(f"{side} has no topic {', '.join(missing)}")
    bounds = side.bounds(topics)
    return resolve(bounds, start, until, side.at(start, bounds), side.at(until, bounds))


class _KafkaSide:
    def __init__(self, endpoint: EndpointOptions, context: Context) -> None:
        self._endpoint = endpoint
        self._context = context

    def __str__(self) -> str:
        return self._endpoint.bootstrap

    def topics(self) -> set[str]:
        with KafkaEndpoint(self._endpoint) as endpoint:
            return endpoint.topics()

    def bounds(self, topics: Collection[str]) -> dict[Partition, Bounds]:
        with KafkaEndpoint(self._endpoint) as endpoint:
            return endpoint.bounds(topics)

    def at(self, position: Position, bounds: Mapping[Partition, Bounds]) -> dict[Partition, int | None]:
        with KafkaEndpoint(self._endpoint) as endpoint:
            return endpoint.at(position, bounds.keys())

    def frame(self, ranges: Sequence[TopicRange]) -> "DataFrame":
        return kafka_frame(self._context.spark, self._endpoint, ranges)


class _ArchiveSide:
    def __init__(self, path: str, context: Context) -> None:
        self._path = path
        self._context = context

    def __str__(self) -> str:
        return self._path

    def topics(self) -> set[str]:
        return {key.topic for key in self._bounds()}

    def bounds(self, topics: Collection[str]) -> dict[Partition, Bounds]:
        return {key: held for key, held in self._bounds().items() if key.topic in topics}

    def at(self, position: Position, bounds: Mapping[Partition, Bounds]) -> dict[Partition, int | None]:
        return _at(self, position, bounds)

    def frame(self, ranges: Sequence[TopicRange]) -> "DataFrame":
        return archive_frame(self._context.spark, self._path, ranges)

    def _bounds(self) -> dict[Partition, Bounds]:
        archive = ArchiveToRead(files_to_read(self._path, lambda: self._context.spark))
        archive.existing()
        return archives.bounds(archive.manifests())


class _NativeSide:
    def __init__(self, address: Address, context: Context) -> None:
        self._address = address
        self._context = context

    def __str__(self) -> str:
        return f"{self._address.scheme}://{self._address.host}:{self._address.port}/{self._address.namespace}"

    def topics(self) -> None:
        return None

    def bounds(self, topics: Collection[str]) -> dict[Partition, Bounds]:
        return {each.key: Bounds(each.start, each.until) for each in native_ranges(self._address, sorted(topics))}

    def at(self, position: Position, bounds: Mapping[Partition, Bounds]) -> dict[Partition, int | None]:
        return _at(self, position, bounds)

    def frame(self, ranges: Sequence[TopicRange]) -> "DataFrame":
        return native_frame(self._context.spark, self._address, ranges)


def _at(side: Side, position: Position, bounds: Mapping[Partition, Bounds]) -> dict[Partition, int | None]:
    """By reading everything, if there is no endpoint to ask."""
    from pyspark.sql import functions as f

    if position.time is None:
        return {}
    everything = [TopicRange(key.topic, key.number, held.earliest, held.latest) for key, held in bounds.items()]
    young = side.frame(everything).where(f.unix_millis("timestamp") >= position.time)
    found = young.groupBy(*PARTITION).agg(f.min("offset").alias("first")).collect()
    return {Partition(row["topic"], row["partition"]): row["first"] for row in found}


def _token(path: Path | None) -> str:
    try:
        return "" if path is None else path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Usage(f"cannot read {path}: {error}") from None
