"""`bridge nodes`: the nodes of a cluster as its view log has them, read from Pulsar itself."""

from collections import Counter
from collections.abc import Sequence
from typing import TextIO

from bridge.cluster.record_fields import InvalidClusterRecord
from bridge.cluster.record_format import decode
from bridge.cluster.records import Heartbeat
from bridge.cluster.topic_readers import start_of_log
from bridge.cluster.topics import VIEW_LOG
from bridge.cluster.view import ClusterView
from bridge.cluster.view_log import ViewLog
from bridge.config import Settings
from bridge.errors import BridgeError, CorruptEntry, StartupError
from bridge.metrics import PulsarMetrics
from bridge.pulsar import PulsarClient
from bridge.pulsar.types import EARLIEST, Position

_HEAD = ("id", "name", "address", "state", "rack", "weight", "partition slots", "group slots", "version", "role")


async def show(settings: Settings, out: TextIO) -> int:
    """Print the nodes; the exit code: 0, or 1 where there is no cluster."""
    view = await read_view(settings)
    if not view.version:
        print(f"no node has ever run on {settings.pulsar.full_namespace}", file=out)
        return 1
    print(f"{settings.pulsar.full_namespace}, version {view.version} of the view", file=out)
    for line in table(view):
        print(line.rstrip(), file=out)
    return 0


async def read_view(settings: Settings) -> ClusterView:
    """The newest view; StartupError where Pulsar cannot be asked."""
    client = PulsarClient(settings.pulsar, PulsarMetrics())
    topic = f"persistent://{settings.pulsar.full_namespace}/{VIEW_LOG}"
    try:
        await client.partitions(topic)  # a reader would create it
        return await _read(client, topic)
    except BridgeError as error:
        raise StartupError(f"{topic} cannot be read: {error}") from None
    finally:
        await client.close()


async def _read(client: PulsarClient, topic: str) -> ClusterView:
    log = ViewLog()
    tick, end = await start_of_log(client, topic)
    start = EARLIEST if tick is None else log.start_at(tick)
    if end == EARLIEST:
        return log.view
    reader = await client.reader(topic, start)
    position = Position(-1, -1)
    while position < end:
        try:
            entry = await reader.receive()
            position, record = entry.position, decode(entry.payload)
        except CorruptEntry as error:
            position = error.args[1]
            continue
        except InvalidClusterRecord:
            continue
        if record is not None and not isinstance(record, Heartbeat):
            log.fold(record, position)
    await reader.close()
    return log.view


def table(view: ClusterView) -> list[str]:
    """The view's members as lines of a table."""
    led, groups = Counter(view.owners), Counter(view.groups)
    rows: list[Sequence[str]] = [_HEAD]
    for id_, node in sorted(view.members.items()):
        address = ", ".join(f"{host}:{port}" for _, host, port in node.endpoints)
        what = (node.name, address, node.state, node.rack, str(node.weight))
        role = "controller" if id_ == view.controller else ""
        rows.append((str(id_), *what, str(led[id_]), str(groups[id_]), node.software, role))
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in rows]
