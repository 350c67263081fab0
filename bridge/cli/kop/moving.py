"""`bridge import kop`: takes the offsets that groups committed in KoP, by OffsetCommit, as any client of a bridge; and
what KoP's transactions have aborted (`transactions`).

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
from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TextIO

from bridge.check.kop import attached
from bridge.cli.connected import connected
from bridge.cli.import_options import kinds, topics_pattern
from bridge.cli.kafka_endpoint import kafka_errors
from bridge.cli.kop.judging import Group, Row, Topics, Wanted, judge
from bridge.cli.kop.reading import read_offsets
from bridge.cli.kop.records import KopOffsets
from bridge.cli.kop.transactions import Aborted, AbortedRow, Kop, find_aborted, read_kop
from bridge.cli.table import printable, table
from bridge.cluster import cluster_id
from bridge.config import Settings
from bridge.config.pulsar import is_namespace
from bridge.errors import SettingsError, StartupError
from bridge.pulsar import Admin, AdminError
from bridge.runtime.loop import run_async
from bridge.storage.names import Names

if TYPE_CHECKING:
    from bridge.pipeline.endpoint import KafkaEndpoint

KINDS: Final = ("groups", "transactions")
_HEAD: Final = ("group", "topic", "partition", "offset", "lag", "taken")
_ABORTED_HEAD: Final = ("topic", "partition", "aborted", "records", "taken")
_WIDEST: Final = 60
"""Of a name in the table; a group's may have 32,767 bytes."""
_COUNTS: Final = ("commits", "forgotten", "groups", "markers", "empty", "unreadable", "misplaced", "missed")
_UNDECIDED: Final = "in a transaction whose end is not known"


def move(settings: Settings, options: argparse.Namespace, out: TextIO) -> int:
    """Tell what is taken and what not, and take it; 1 where a bridge refused some.

    SettingsError where nothing can be asked, StartupError where Pulsar or the bridge does not answer. What was taken
    until then stays: the next run goes on from there.
    """
    _check_options(options)
    wanted, namespace = kinds(options.what, KINDS), options.namespace or settings.pulsar.full_namespace
    with _endpoint(options) as endpoint:
        found = run_async(_read(settings, options, wanted))
        _check_bridge(found, settings, endpoint)
        if found.attached and not options.dry_run:
            raise StartupError(
                f"KoP still runs: {found.attached} of its producers and readers are on its topics in "
                f"{options.metadata_namespace}. What it commits and ends from now on would be missed: stop it, or look "
                "with --dry-run"
            )
        rows = _rows(found.offsets, endpoint, namespace, Wanted(options.forward, options.expired))
        if not options.json and "groups" in wanted:
            _tell(rows, found.offsets, out)
        aborted = None
        if found.kop is not None:
            aborted = run_async(find_aborted(settings, namespace, found.kop, options.topics, dry_run=options.dry_run))
            if not options.json:
                _tell_aborted(aborted, out)
        taken = [row for row in rows if not row.reason]
        refused = [] if options.dry_run else _commit(taken, endpoint)
    if options.json:
        _tell_json(_merged(rows, refused), found.offsets, aborted, options, namespace, out)
    else:
        _tell_end(taken, refused, aborted, out, dry_run=options.dry_run)
    not_taken = aborted is not None and aborted.refused and not options.dry_run
    return 1 if refused or not_taken else 0


def _check_options(options: argparse.Namespace) -> None:
    for name in ("metadata_namespace", "namespace"):
        value = getattr(options, name)
        if value is not None and not is_namespace(value):
            raise SettingsError(f"--{name.replace('_', '-')} {value}: not TENANT/NAMESPACE")
    topics_pattern(options.topics)


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


class _Found(NamedTuple):
    """What KoP has left."""

    offsets: KopOffsets
    cluster_ids: set[str]
    """Those that a bridge of these settings may have."""
    attached: int
    """How many producers and readers are on KoP's own topics now."""
    kop: Kop | None
    """What it has kept of its transactions, where they are asked for and there were any."""


def _check_bridge(found: _Found, settings: Settings, endpoint: "KafkaEndpoint") -> None:
    """What is aborted is stored with the bridge's own state; with rules for tenants groups may be of another namespace
    than that of the settings."""
    if endpoint.cluster_id() in found.cluster_ids or (settings.tenants.rules and found.kop is None):
        return
    more = "; a tenant's namespace goes into --namespace" if settings.tenants.rules else ""
    raise StartupError(f"{endpoint.options.bootstrap} is no bridge of {settings.pulsar.full_namespace}{more}")


async def _read(settings: Settings, options: argparse.Namespace, kinds: Collection[str]) -> _Found:
    namespace: str = options.metadata_namespace
    async with connected(settings) as (client, admin):
        running = await _attached(admin, namespace)
        found = await read_offsets(client, admin, namespace) if "groups" in kinds else KopOffsets(1)
        always = options.what is not None
        kop = await read_kop(client, admin, namespace, always=always) if "transactions" in kinds else None
        # a bridge that may not ask for the name goes without it
        names = {"", ",".join(sorted(await admin.clusters()))}
        ids = {cluster_id(name, settings.pulsar.full_namespace) for name in names}
        return _Found(found, ids, running, kop)


async def _attached(admin: Admin, namespace: str) -> int:
    """Of KoP's own topics; 0 where this login may not see it."""
    try:
        return await attached(admin, namespace)
    except AdminError:
        return 0


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


def _tell_aborted(aborted: Aborted, out: TextIO) -> None:
    if aborted.rows:
        print(*table(_ABORTED_HEAD, [_aborted_cells(row) for row in aborted.rows]), sep="\n", file=out)
    passed = f", {aborted.unreadable} unreadable" if aborted.unreadable else ""
    print(f"read: {aborted.partitions} partitions, {aborted.transactions} transactions{passed}", file=out)


def _aborted_cells(row: AbortedRow) -> tuple[str, ...]:
    numbers = (str(row.partition), str(row.found.aborted), str(row.found.records))
    taken = row.reason or ("yes" if row.found.aborted else "")
    return (row.topic, *numbers, "; ".join(filter(None, (taken, row.remark))))


def _tell_end(
    taken: Sequence[Row], refused: Sequence[Row], aborted: Aborted | None, out: TextIO, *, dry_run: bool
) -> None:
    for row in refused:
        print("  ".join(_cells(row)), file=out)
    left = {row.place for row in taken} - {row.place for row in refused}
    groups = {place.group for place in left}
    told = f"{len(left)} offsets of {len(groups)} groups"
    if aborted is not None:
        told += f", {sum(row.found.aborted for row in aborted.rows if not row.reason)} aborted transactions"
    print(f"{'would take' if dry_run else 'taken'}: {told}", file=out)


def _cells(row: Row) -> tuple[str, ...]:
    numbers = (str(row.place.partition), str(row.commit.offset), "" if row.lag is None else str(row.lag))
    return (_shown(row.place.group), _shown(row.name or row.place.topic), *numbers, row.reason or "yes")


def _shown(text: str) -> str:
    """A name as one short line: a group's may be any text."""
    plain = printable(text)
    return plain if len(plain) <= _WIDEST else plain[: _WIDEST - 1] + "…"


def _tell_json(
    rows: Iterable[Row],
    found: KopOffsets,
    aborted: Aborted | None,
    options: argparse.Namespace,
    namespace: str,
    out: TextIO,
) -> None:
    told: dict[str, Any] = {
        "metadata_namespace": options.metadata_namespace,
        "namespace": namespace,
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
    if aborted is not None:
        told["transactions"] = {
            "partitions": aborted.partitions,
            "transactions": aborted.transactions,
            "unreadable": aborted.unreadable,
            "aborted": [
                {
                    "topic": row.topic,
                    "partition": row.partition,
                    "transactions": row.found.aborted,
                    "records": row.found.records,
                    "never_ended": row.found.never_ended,
                    "unknown": row.found.unknown,
                    "taken": bool(row.found.aborted and not row.reason),
                    "withdrawn": row.withdrawn,
                    "reason": row.reason,
                }
                for row in aborted.rows
            ],
        }
    print(json.dumps(told, indent=1), file=out)
