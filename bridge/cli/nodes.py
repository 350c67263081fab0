"""`bridge nodes`: shows the nodes of a cluster, removes and drains them; by the view log in Pulsar, asking no node."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, TextIO

from bridge.cli.table import table as columns
from bridge.cluster.member import new_incarnation
from bridge.cluster.membership.orders import Order, ordered
from bridge.cluster.membership.record_fields import InvalidClusterRecord
from bridge.cluster.membership.record_format import decode, encode
from bridge.cluster.membership.records import Heartbeat, Tick
from bridge.cluster.membership.view import ClusterView, Sender
from bridge.cluster.membership.view_log import ViewLog
from bridge.cluster.topic_readers import start_of_log
from bridge.cluster.topics import VIEW_LOG
from bridge.config import Settings
from bridge.errors import CorruptEntry, StartupError
from bridge.pulsar import PulsarClient
from bridge.pulsar.consumer import Reader
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import EARLIEST, Position, PulsarError
from bridge.telemetry.metrics import PulsarMetrics

_TRIES: Final = 5
_READ_SECONDS: Final = 15.0
_HEAD: Final = ("id", "name", "address", "state", "rack", "weight", "partition slots", "group slots", "version", "role")


async def show(settings: Settings, out: TextIO, *, as_json: bool = False) -> int:
    """Print the nodes; the exit code: 0, or 1 where there is no cluster."""
    view = await read_view(settings)
    if as_json:
        told = {
            "namespace": settings.pulsar.full_namespace,
            "version": view.version,
            "nodes": _with_plain_names(_rows(view)),
        }
        print(json.dumps(told, indent=1), file=out)
        return 0 if view.version else 1
    if not view.version:
        print(_never_run(settings), file=out)
        return 1
    print(f"{settings.pulsar.full_namespace}, version {view.version} of the view", file=out)
    for line in table(view):
        print(line, file=out)
    return 0


async def order(settings: Settings, what: Order, name: str, out: TextIO, *, as_json: bool = False) -> int:
    """Carry an order out and print the nodes after it; raises OrderRefused, StartupError."""
    async with _opened(settings) as log:
        await log.carry_out(what, name)
    return await show(settings, out, as_json=as_json)


async def read_view(settings: Settings) -> ClusterView:
    """The newest view, which is empty where no node has ever run; StartupError where Pulsar cannot be asked."""
    try:
        async with _opened(settings) as log:
            return log.view
    except _NoLog:
        return ViewLog().view


def _never_run(settings: Settings) -> str:
    where = settings.pulsar.full_namespace
    return f"no node has ever run on {where}; `bridge run` starts the first, or set pulsar.namespace to where they are"


class _NoLog(StartupError):
    """No node has ever run."""


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator["ViewLogFile"]:
    client = PulsarClient(settings.pulsar, PulsarMetrics())
    topic = settings.pulsar.state_topic(VIEW_LOG)
    try:
        await client.partitions(topic)  # a reader would create it
        log = ViewLogFile(client, topic)
        await log.open()
        yield log
    except (PulsarError, TimeoutError) as error:
        if isinstance(error, PulsarError) and error.code == pb.TopicNotFound:
            raise _NoLog(_never_run(settings)) from None
        raise StartupError(f"{topic}: {error or 'Pulsar does not answer in time'}") from None
    finally:
        await client.close()


class ViewLogFile:
    """The view log as a tool reads and writes it."""

    def __init__(self, client: PulsarClient, topic: str) -> None:
        self._client = client
        self._topic = topic
        self._log = ViewLog()
        self._reader: Reader | None = None
        self._tick: Tick | None = None
        """The last one that was read."""

    @property
    def view(self) -> ClusterView:
        """The view as far as the log was read."""
        return self._log.view

    async def open(self) -> None:
        """Read up to the present end."""
        tick, end = await start_of_log(self._client, self._topic)
        await self._read_from(tick, end)
        if not self.view.version and self._tick is not None:  # Pulsar has deleted the log's beginning
            await self._read_from(self._tick, end)

    async def _read_from(self, tick: Tick | None, end: Position) -> None:
        if self._reader is not None:
            await self._reader.close()
        self._reader = await self._client.reader(self._topic, EARLIEST if tick is None else self._log.start_at(tick))
        if end != EARLIEST:
            await self._read_to(end)

    async def carry_out(self, what: Order, name: str) -> None:
        """Propose the view that the order leads to, until one counts."""
        producer = self._client.producer(self._topic, must_exist=True)
        sender = Sender("operator", new_incarnation())
        for _ in range(_TRIES):
            record = ordered(self.view, sender, what, name)
            receipt = await producer.send(pb.MessageMetadata(), encode(record), 1)
            if await self._read_to(receipt.position):
                return
        raise StartupError(f"other changes of the cluster came first, {_TRIES} times: try again")

    async def _read_to(self, end: Position) -> bool:
        """Whether the record at the end made a view."""
        assert self._reader is not None  # noqa: S101 - it was opened
        while True:
            counts, position = False, EARLIEST
            try:
                async with asyncio.timeout(_READ_SECONDS):
                    entry = await self._reader.receive()
                position, record = entry.position, decode(entry.payload)
                self._tick = record if isinstance(record, Tick) else self._tick
                counts = record is not None and not isinstance(record, Heartbeat) and self._log.fold(record, position)
            except CorruptEntry as error:
                position = error.args[1]
            except InvalidClusterRecord:
                pass
            if position >= end:
                return counts


def _rows(view: ClusterView) -> list[dict[str, object]]:
    """The view's members, by the names of `_HEAD`."""
    led, groups = Counter(view.owners), Counter(view.groups)
    return [
        {
            "id": id_,
            "name": node.name,
            "address": ", ".join(f"{host}:{port}" for _, host, port in node.endpoints),
            "state": "drained" if node.name in view.drained else node.state,
            "rack": node.rack,
            "weight": node.weight,
            "partition slots": led[id_],
            "group slots": groups[id_],
            "version": node.software,
            "role": "controller" if id_ == view.controller else "",
        }
        for id_, node in sorted(view.members.items())
    ]


def _with_plain_names(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return [{name.replace(" ", "_"): value for name, value in row.items()} for row in rows]


def table(view: ClusterView) -> list[str]:
    """The view's members as lines of a table."""
    return columns(_HEAD, [[row[name] for name in _HEAD] for row in _rows(view)])
