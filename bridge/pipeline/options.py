"""The options jobs share, read and checked without I/O: which endpoint, which topics, which offsets."""

import argparse
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from bridge.pipeline.errors import Usage
from bridge.pipeline.ranges import Partition

Named = Literal["earliest", "latest"]
_SECONDS_AT_ONCE = 5
_NAMED: dict[str, Named] = {"earliest": "earliest", "latest": "latest"}


@dataclass(frozen=True, slots=True)
class EndpointOptions:
    """How a Kafka endpoint is reached; the properties hold secrets and are never shown."""

    bootstrap: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def isolation(self) -> str:
        """Which records of transactions are read. A consumer's default includes aborted ones, which no job wants."""
        return self.properties.get("isolation.level", "read_committed")

    def spark_options(self) -> dict[str, str]:
        """As options of Spark's Kafka source or sink."""
        given = {f"kafka.{name}": value for name, value in self.properties.items()}
        return {**given, "kafka.bootstrap.servers": self.bootstrap, "kafka.isolation.level": self.isolation}


@dataclass(frozen=True, slots=True)
class Position:
    """Where to start or stop: by name, by time (milliseconds), or by an offset for each partition."""

    named: Named | None = None
    time: int | None = None
    offsets: Mapping[Partition, int] | None = None

    def __str__(self) -> str:
        if self.time is not None:
            return datetime.fromtimestamp(self.time / 1000, UTC).isoformat()
        return self.named or f"offsets of {len(self.offsets or {})} partitions"


@dataclass(frozen=True, slots=True)
class Selection:
    """Which topics, and which part of them."""

    topics: tuple[str, ...]
    pattern: str | None
    start: Position
    until: Position

    def chosen(self, existing: set[str]) -> list[str]:
        """The topics meant, of those that exist; a topic that is named must. All, where a job lets none be named."""
        missing = [topic for topic in self.topics if topic not in existing]
        if missing:
            raise Usage(f"no such topic: {', '.join(missing)}")
        if self.pattern is None:
            return list(dict.fromkeys(self.topics)) or sorted(existing)
        # Kafka keeps its own affairs in topics too; a job that wants those names them
        own = self.pattern.startswith("__")
        matching = sorted(t for t in existing if re.fullmatch(self.pattern, t) and (own or not t.startswith("__")))
        if not matching:
            raise Usage(f"no topic matches {self.pattern}")
        return matching


@dataclass(frozen=True, slots=True)
class Appending:
    """How records are written to another topic."""

    keep_times: bool = True
    headers: bool = False


def add_endpoint(
    parser: argparse.ArgumentParser, name: str = "bootstrap", help_text: str = "the Kafka endpoint"
) -> None:
    """Add `--NAME HOST:PORT` and `--NAME-conf FILE` (`--kafka-conf` beside `--bootstrap`)."""
    parser.add_argument(f"--{name}", metavar="HOST:PORT", required=True, help=help_text)
    add_endpoint_conf(parser, name)


def add_endpoint_conf(parser: argparse.ArgumentParser, name: str = "bootstrap") -> None:
    """Add the option for the client properties alone."""
    flag = "kafka" if name == "bootstrap" else name
    parser.add_argument(
        f"--{flag}-conf", metavar="FILE", type=Path, help="client properties (SASL, TLS) as Kafka's tools take them"
    )


def check_topic_name(name: str, where: str) -> None:
    """Raise Usage unless Kafka would take the name (`org.apache.kafka.common.internals.Topic`)."""
    if not re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", name) or name in (".", ".."):
        raise Usage(f"{where}: {name!r} is no name of a topic: 1 to 249 letters, digits and . _ -")


def positive_seconds(text: str) -> float:
    """A number of seconds, for argparse."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return seconds


def endpoint_options(arguments: argparse.Namespace, name: str = "bootstrap") -> EndpointOptions:
    """What `add_endpoint` was given on the command line."""
    bootstrap: str = getattr(arguments, name)
    for server in bootstrap.split(","):
        if not re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^:\s\[\]]+):\d{1,5}", server.strip()):
            raise Usage(f"--{name} {bootstrap}: not HOST:PORT")
    conf: Path | None = getattr(arguments, f"{'kafka' if name == 'bootstrap' else name}_conf")
    return EndpointOptions(bootstrap, {} if conf is None else read_properties(conf))


def add_selection(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Add `--topics` or `--pattern`, `--from` and `--to`."""
    which = parser.add_mutually_exclusive_group(required=required)
    which.add_argument("--topics", metavar="A,B", help="topics by name")
    which.add_argument("--pattern", metavar="REGEX", help="all topics whose whole name matches")
    add_positions(parser)


def add_positions(parser: argparse.ArgumentParser) -> None:
    """Add `--from` and `--to` alone."""
    forms = "earliest, latest, an ISO time (UTC unless it says otherwise), or JSON offsets: text or a file"
    parser.add_argument("--from", dest="start", metavar="WHERE", default="earliest", help=forms)
    parser.add_argument("--to", dest="until", metavar="WHERE", default="latest", help="likewise; exclusive")


def selection(arguments: argparse.Namespace) -> Selection:
    """What `add_selection` was given on the command line."""
    topics = tuple(name.strip() for name in (arguments.topics or "").split(",") if name.strip())
    if arguments.topics is not None and not topics:
        raise Usage("--topics is empty")
    for topic in topics:
        check_topic_name(topic, "--topics")
    if arguments.pattern is not None:
        try:
            re.compile(arguments.pattern)
        except re.error as error:
            raise Usage(f"--pattern {arguments.pattern}: {error}") from None
    return Selection(topics, arguments.pattern, position(arguments.start), position(arguments.until))


def lasting_selection(arguments: argparse.Namespace) -> Selection:
    """A selection for jobs that continue when started again: it must mean the same then."""
    chosen = selection(arguments)
    if chosen.start.named == "latest":
        raise Usage("--from latest would be another place at each start: give the time instead")
    return chosen


def position(text: str) -> Position:
    """Read one of the forms of `--from` and `--to`."""
    if text in _NAMED:
        return Position(named=_NAMED[text])
    if text.lstrip().startswith("{"):
        return Position(offsets=_offsets(text, text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        pass
    else:
        moment = moment.replace(tzinfo=moment.tzinfo or UTC)
        return Position(time=round(moment.timestamp() * 1000))
    try:
        return Position(offsets=_offsets(Path(text).read_text(encoding="utf-8"), text))
    except (OSError, UnicodeDecodeError):
        raise Usage(f"{text}: neither earliest, latest, an ISO time, JSON offsets nor a file of them") from None


def _offsets(text: str, source: str) -> dict[Partition, int]:
    wrong = Usage(f'{source}: offsets are written {{"topic": {{"0": 17}}}}')
    try:
        parsed = json.loads(text)
        result = {
            Partition(topic, int(number)): offset
            for topic, partitions in parsed.items()
            for number, offset in partitions.items()
        }
    except (ValueError, AttributeError):
        raise wrong from None
    if not result or not all(type(offset) is int and offset >= 0 for offset in result.values()):
        raise wrong
    return result


def add_appending(parser: argparse.ArgumentParser) -> None:
    """Add what jobs that write to topics share."""
    parser.add_argument("--map", metavar="OLD=NEW", action="append", default=[], help="write topic OLD to topic NEW")
    parser.add_argument("--rate", metavar="N", type=int, help="at most so many records a second")
    parser.add_argument("--chunk", metavar="N", type=int, default=1_000_000, help="records between checks, about")
    parser.add_argument(
        "--timestamps", choices=["record", "now"], default="record", help="the records' own or now (default: record)"
    )
    parser.add_argument("--headers", action="store_true", help="add where each record comes from, and its time")


def appending(arguments: argparse.Namespace) -> Appending:
    """What `add_appending` was given on the command line, of each record."""
    return Appending(keep_times=arguments.timestamps == "record", headers=arguments.headers)


def topic_names(arguments: argparse.Namespace, topics: Iterable[str]) -> dict[str, str]:
    """The target topic of each source topic, as `--map` has it."""
    names = {topic: topic for topic in topics}
    for pair in arguments.map:
        old, equals, new = pair.partition("=")
        if not equals or not new or old not in names:
            raise Usage(f"--map {pair}: OLD=NEW is wanted, and OLD among the topics chosen")
        check_topic_name(new, "--map")
        names[old] = new
    if len(set(names.values())) < len(names):
        raise Usage("two topics would be written to one, and no job could continue from its order")
    return names


def chunk_size(arguments: argparse.Namespace) -> int:
    """How many offsets to write at once: no more than a few seconds' worth where the rate is limited."""
    chunk: int = arguments.chunk
    rate: int | None = arguments.rate
    if chunk < 1 or (rate is not None and rate < 1):
        raise Usage("--chunk and --rate must be positive")
    return chunk if rate is None else min(chunk, _SECONDS_AT_ONCE * rate)


def read_properties(path: Path) -> dict[str, str]:
    """Read a Java properties file, without the escapes that no client setting needs but a line's continuation."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Usage(f"cannot read {path}: {error}") from None
    result: dict[str, str] = {}
    for number, line in enumerate(re.sub(r"\\\n[ \t]*", "", text).splitlines(), 1):
        line = line.strip()
        if not line or line[0] in "#!":
            continue
        found = re.fullmatch(r"([^\s=:]+)\s*[=:\s]\s*(.*)", line)
        if found is None:
            raise Usage(f"{path}:{number}: not NAME=VALUE")  # never the line itself: it may hold a secret
        result[found[1]] = found[2].replace("\\\\", "\\")
    return result
