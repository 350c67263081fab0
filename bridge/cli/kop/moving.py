"""`bridge import kop`: takes the offsets that groups committed in KoP, by OffsetCommit, as any client of a bridge.

A running bridge is asked to commit, by its Kafka port, and nothing is written into its topics from here: whoever
coordinates a group judges each commit in the step in which it gets its place, and knows at once what it has stored. A
group that has members refuses it. Written past the coordinators, commits would be seen by running nodes only after a
restart, and could undo newer ones. So nodes need not be stopped, it does not matter which one is asked, and the
bridge's own rights say who may do this: Read on the groups and topics.

Offsets need no translation. KoP's are those of the broker entry metadata, as the bridge's are: the index of an entry is
that of its last message, in both.
"""

import argparse
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, TextIO

from bridge.cli.kafka_endpoint import kafka_errors
from bridge.cli.kop.judging import Group, Row, Topics, Wanted, judge
from bridge.cli.kop.reading import read_offsets
from bridge.cli.kop.records import KopOffsets
from bridge.cli.table import printable, table
from bridge.cluster import cluster_id
from bridge.config import Settings
from bridge.config.pulsar import is_namespace
from bridge.errors import BridgeError, SettingsError, StartupError
from bridge.pulsar import Access, Admin, PulsarClient
from bridge.runtime.loop import run_async
from bridge.storage.names import Names
from bridge.telemetry.metrics import PulsarMetrics

if TYPE_CHECKING:
    from bridge.pipeline.endpoint import KafkaEndpoint

_HEAD: Final = ("group", "topic", "partition", "offset", "lag", "taken")
_WIDEST: Final = 60
"""Of a name in the table; a group's may have 32,767 bytes."""
_COUNTS: Final = ("commits", "forgotten", "groups", "markers", "empty", "unreadable", "misplaced", "missed")
_UNDECIDED: Final = "in a transaction whose end is not known"


def move(settings: Settings, options: argparse.Namespace, out: TextIO) -> int:
    """Tell what is taken and what not, and take it; 1 where a bridge refused some.

    SettingsError where nothing can be asked, StartupError where Pulsar or the bridge does not answer. What was taken
    until then stays: the next run goes on from there.
    """
    if not is_namespace(options.metadata_namespace):
        raise SettingsError(f"--metadata-namespace {options.metadata_namespace}: not TENANT/NAMESPACE")
    with _endpoint(options) as endpoint:
        found, ids = run_async(_read(settings, options.metadata_namespace))
        if not settings.tenants.rules and endpoint.cluster_id() not in ids:
            raise StartupError(f"{options.bootstrap} is no bridge of {settings.pulsar.full_namespace}")
        rows = _rows(found, endpoint, settings.pulsar.full_namespace, Wanted(options.forward, options.expired))
        if not options.json:
            _tell(rows, found, out)
        taken = [row for row in rows if not row.reason]
        refused = [] if options.dry_run else _commit(taken, endpoint)
    if options.json:
        _tell_json(_merged(rows, refused), found, options, settings, out)
    else:
        _tell_end(taken, refused, out, dry_run=options.dry_run)
    return 1 if refused else 0


def _endpoint(options: argparse.Namespace) -> "AbstractContextManager[KafkaEndpoint]":
    """The bridge, as a Kafka client sees it."""

    def opened() -> "KafkaEndpoint":
        from bridge.pipeline.endpoint import KafkaEndpoint
        from bridge.pipeline.options import EndpointOptions, endpoint_options

        given = endpoint_options(options)
        # a group may have committed behind the last stable offset: what the log holds is asked for
        properties = {**given.properties, "isolation.level": "read_uncommitted"}
        return KafkaEndpoint(EndpointOptions(given.bootstrap, properties))

    return kafka_errors(opened)


async def _read(settings: Settings, namespace: str) -> tuple[KopOffsets, set[str]]:
    """What KoP has left, and the cluster ids that a bridge of these settings may have."""
    access = Access.by(settings.pulsar, PulsarMetrics())
    client, admin = PulsarClient(settings.pulsar, PulsarMetrics(), access), Admin(settings.pulsar, access)
    try:
        await admin.start()
        await client.start()
        found = await read_offsets(client, admin, namespace)
        # a bridge that may not ask for the name goes without it
        names = {"", ",".join(sorted(await admin.clusters()))}
        return found, {cluster_id(name, settings.pulsar.full_namespace) for name in names}
    except StartupError:
        raise
    except (BridgeError, TimeoutError) as error:
        raise StartupError(f"Pulsar: {error or 'no answer in time'}") from None
    finally:
        await client.close()
        await admin.close()
        await access.close()


def _rows(found: KopOffsets, endpoint: "KafkaEndpoint", namespace: str, wanted: Wanted) -> list[Row]:
    """What becomes of each commit, by group, topic and partition."""
    names, now = Names(namespace), int(time.time() * 1000)
    undecided = {
        place: commit for place, commit in found.undecided.items() if commit and place not in found.commits
    }  # fmt: skip
    every = {**found.commits, **undecided}
    existing = endpoint.topics() & {names.kafka(place.topic) for place in every}
    bounds = {(key.topic, key.number): (one.earliest, one.latest) for key, one in endpoint.bounds(existing).items()}
    topics, active = Topics(names, existing, bounds), endpoint.active_groups()
    groups = {id_: Group(id_ in active, _committed(endpoint, id_)) for id_ in {place.group for place in every}}
    rows = [judge(place, every[place], topics, groups[place.group], wanted, now) for place in sorted(every)]
    return [row._replace(reason=_UNDECIDED) if row.place in undecided and not row.reason else row for row in rows]


def _committed(endpoint: "KafkaEndpoint", group: str) -> dict[tuple[str, int], int]:
    return {(key.topic, key.number): one.offset for key, one in endpoint.committed(group).items()}


def _commit(rows: Iterable[Row], endpoint: "KafkaEndpoint") -> list[Row]:
    """Take them; those that were refused, or had moved on since they were judged."""
    from bridge.pipeline.endpoint import Committed
    from bridge.pipeline.ranges import Partition

    of_groups: dict[str, list[Row]] = {}
    for row in rows:
        of_groups.setdefault(row.place.group, []).append(row)
    refused = []
    for group, its in of_groups.items():
        here = _committed(endpoint, group)
        same = [row for row in its if here.get(row.where) == row.here]
        refused += [row._replace(reason="has committed here meanwhile") for row in its if row not in same]
        offsets = {Partition(*row.where): Committed(row.commit.offset, row.commit.metadata) for row in same}
        errors = endpoint.try_commit(group, offsets) if offsets else {}
        refused += [
            row._replace(reason=f"refused: {errors[Partition(*row.where)]}")
            for row in same
            if Partition(*row.where) in errors
        ]
    return refused


def _merged(rows: Iterable[Row], refused: Iterable[Row]) -> list[Row]:
    last = {row.place: row for row in refused}
    return [last.get(row.place, row) for row in rows]


# ---- what is told ----------------------------------------------------------------------------------------------------


def _tell(rows: Sequence[Row], found: KopOffsets, out: TextIO) -> None:
    print(*table(_HEAD, [_cells(row) for row in rows]), sep="\n", file=out)
    told = (f"{found.counts[name]} {name}" for name in _COUNTS if found.counts[name])
    print(f"read: {', '.join(told) or 'nothing'}", file=out)


def _tell_end(taken: Sequence[Row], refused: Sequence[Row], out: TextIO, *, dry_run: bool) -> None:
    for row in refused:
        print("  ".join(_cells(row)), file=out)
    left = {row.place for row in taken} - {row.place for row in refused}
    groups = {place.group for place in left}
    print(f"{'would take' if dry_run else 'taken'}: {len(left)} offsets of {len(groups)} groups", file=out)


def _cells(row: Row) -> tuple[str, ...]:
    numbers = (str(row.place.partition), str(row.commit.offset), "" if row.lag is None else str(row.lag))
    return (_shown(row.place.group), _shown(row.name or row.place.topic), *numbers, row.reason or "yes")


def _shown(text: str) -> str:
    """A name as one short line: a group's may be any text."""
    plain = printable(text)
    return plain if len(plain) <= _WIDEST else plain[: _WIDEST - 1] + "…"


def _tell_json(
    rows: Iterable[Row], found: KopOffsets, options: argparse.Namespace, settings: Settings, out: TextIO
) -> None:
    told: Mapping[str, Any] = {
        "metadata_namespace": options.metadata_namespace,
        "namespace": settings.pulsar.full_namespace,
        "dry_run": options.dry_run,
        "records": {name: found.counts[name] for name in _COUNTS},
        "offsets": [
            {
                "group": row.place.group,
                "topic": row.name or row.place.topic,
                "partition": row.place.partition,
                "offset": row.commit.offset,
                "here": row.here,
                "lag": row.lag,
                "taken": not row.reason,
                "reason": row.reason,
            }
            for row in rows
        ],
    }
    print(json.dumps(told, indent=1), file=out)
