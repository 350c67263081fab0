"""`bridge move-state`: moves users, permissions, groups and offsets out of the namespace of the data, and back.

Pulsar itself keeps both sides apart. The topics that are left are terminated first: what was acknowledged lies before
that, and no bridge, of whatever version, can write behind it. Then the newest value of each key is written to new
topics, and read back. Until that is whole, the new topic of groups says that it is not (`owned_log.UNFINISHED`), and no
bridge starts with it. What is left stays as it is, terminated: a bridge that looks for its state there does not become
a member of any cluster. A move that was interrupted is done again from its beginning.

    place     LIVE ──terminated──▶ LEFT                        of another place
                ▲                    │ copied
                └── said to be whole ┴─▶ UNFINISHED ◀── ABSENT
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from enum import Enum, auto
from typing import Final, TextIO, TypeAlias

from bridge.access.security_store.security_log import TOPIC as SECURITY
from bridge.access.security_store.security_log import parts
from bridge.check.state_namespace import make_namespace
from bridge.cli.nodes import ViewLogFile
from bridge.cluster.member import new_incarnation
from bridge.cluster.membership.record_format import encode
from bridge.cluster.membership.records import WholeView
from bridge.cluster.membership.view import Sender
from bridge.cluster.probes import node_of
from bridge.cluster.topics import HEARTBEATS, VIEW_LOG
from bridge.config import PulsarSettings, Settings
from bridge.config.tenants import parse_allowed, parse_rules
from bridge.errors import BridgeError, StartupError
from bridge.groups.store.store import TOPIC as GROUPS
from bridge.owned_log import UNFINISHED, create_log
from bridge.owned_log.batch import Record, pack
from bridge.owned_log.slot_reader import SlotReader
from bridge.owned_log.succession import Succession, marker
from bridge.pulsar import Access, Admin, PulsarClient, PulsarError
from bridge.pulsar.admin import NotFound
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import EARLIEST, AccessMode, Position
from bridge.security.records import MARKER, Kept
from bridge.telemetry import log
from bridge.telemetry.metrics import GroupMetrics, PulsarMetrics
from bridge.tenants.services import settings_of

_READ_SECONDS: Final = 30.0
_WHO: Final = "bridge move-state"

_log = log.get(__name__)

_Place: TypeAlias = Callable[[str], str]
"""The full names of the bridge's own topics, where they are."""


class _Stands(Enum):
    """How a place stands: see the module."""

    ABSENT = auto()
    UNFINISHED = auto()
    LEFT = auto()
    LIVE = auto()


async def move(settings: Settings, out: TextIO, *, undo: bool = False) -> int:
    """Move, or undo it, and tell what was done; StartupError says why nothing is lost and what to do."""
    access = Access.by(settings.pulsar, PulsarMetrics())
    client, admin = PulsarClient(settings.pulsar, PulsarMetrics(), access), Admin(settings.pulsar, access)
    try:
        await admin.start()
        await client.start()
        if not undo:
            await make_namespace(admin, settings)
        await _Move(client, admin, settings, out, undo=undo).run()
    except StartupError:
        raise
    except (BridgeError, TimeoutError) as error:
        raise StartupError(f"Pulsar: {error or 'no answer in time'}; nothing is lost: run it again") from None
    finally:
        await client.close()
        await admin.close()
        await access.close()
    return 0


class _Move:
    """One run of `bridge move-state`."""

    def __init__(self, client: PulsarClient, admin: Admin, settings: Settings, out: TextIO, *, undo: bool) -> None:
        self._client = client
        self._admin = admin
        self._settings = settings
        self._out = out
        self._undo = undo

    async def run(self) -> None:
        source, target = self._places(self._settings.pulsar)
        await self._refuse_running(source, target)
        tenants = {one: self._places(settings_of(one, self._settings).pulsar) for one in await self._tenants()}
        for each in ((source, target), *tenants.values()):
            await self._refuse_both(*each)
        await self._leave(source)  # first: a bridge that is started now comes no further
        for namespace, places in tenants.items():
            await self._move(namespace, *places)
        await self._move(self._settings.pulsar.full_namespace, source, target)

    def _places(self, pulsar: PulsarSettings) -> tuple[_Place, _Place]:
        """From where to where."""
        new, old = pulsar.state_topic, pulsar.old_state_topic
        return (new, old) if self._undo else (old, new)

    async def _tenants(self) -> list[str]:
        """The namespaces beside the bridge's own that `tenants.rules` lead to."""
        rules = parse_rules(self._settings.tenants.rules)
        allowed = parse_allowed(self._settings.tenants.namespaces)
        found = {rule.namespace for rule in rules if not rule.captures}
        if any(rule.captures for rule in rules):
            there = [one for tenant in await self._admin.tenants() for one in await self._admin.namespaces(tenant)]
            found |= {one for one in there if any(rule.may_lead_to(one, allowed) for rule in rules)}
        own = {self._settings.pulsar.full_namespace, self._settings.pulsar.full_state_namespace}
        return sorted(found - own)

    async def _refuse_running(self, *places: _Place) -> None:
        names = set[str]()
        for place in places:
            with suppress(NotFound):
                names.update(map(node_of, await self._admin.producers(place(HEARTBEATS))))
        if names:
            raise StartupError(f"these nodes are running: stop them first: {', '.join(sorted(names))}")

    # ---- one namespace -----------------------------------------------------------------------------------------------

    async def _move(self, namespace: str, source: _Place, target: _Place) -> None:
        stands, there = await self._stands(source), await self._stands(target)
        if there is not _Stands.LIVE:
            if stands is _Stands.ABSENT or stands is _Stands.UNFINISHED:
                self._tell(f"{namespace}: there is nothing to move")
                return
            await self._leave(source)
            await self._copy(source, target)
            self._tell(f"{namespace}: moved to {target(GROUPS)} and the topics beside it")
        else:
            self._tell(f"{namespace}: is there already")
        if self._undo:
            await self._forget(source, target)

    async def _refuse_both(self, source: _Place, target: _Place) -> None:
        """Before anything is ended: afterwards nobody could tell that both were live."""
        if await self._stands(source) is _Stands.LIVE and await self._stands(target) is _Stands.LIVE:
            raise StartupError(
                f"there is state both in {source(GROUPS)} and in {target(GROUPS)}: delete the topics of the one that "
                "does not count"
            )

    async def _stands(self, place: _Place) -> _Stands:
        """By the topic of groups, which all bridges have; by users where none has started yet."""
        try:
            metadata = await self._admin.partitioned_metadata(place(GROUPS))
        except NotFound:
            metadata = None
        if metadata is not None and metadata.partitions:
            if UNFINISHED in metadata.properties:
                return _Stands.UNFINISHED
            return await self._is_left(f"{place(GROUPS)}-partition-0")
        for name in (SECURITY, VIEW_LOG):
            with suppress(NotFound):
                return await self._is_left(place(name))
        return _Stands.ABSENT

    async def _is_left(self, topic: str) -> _Stands:
        return _Stands.LEFT if await self._admin.is_terminated(topic) else _Stands.LIVE

    async def _leave(self, place: _Place) -> None:
        """Have Pulsar take nothing more there."""
        for name in (HEARTBEATS, VIEW_LOG):
            if await self._is_open(place(name)):
                await self._admin.terminate(place(name))
        await self._end(place(SECURITY), Record(MARKER, b"1"), AccessMode.SHARED)
        for topic in await self._slots(place):
            await self._end(topic, marker(_WHO), AccessMode.EXCLUSIVE)

    async def _end(self, topic: str, record: Record, mode: AccessMode) -> None:
        """A last record, which no compaction drops: what is read up to it is all there is."""
        if not await self._is_open(topic):
            return
        producer = self._client.producer(topic, access_mode=mode, must_exist=True)
        try:
            await producer.opened()
            await producer.send(*pack([record]), 1)
        except PulsarError as error:
            if error.code == pb.ProducerFenced:
                raise StartupError(f"a node is running that has {topic}: stop it first") from None
            raise
        finally:
            await producer.close(flush=False)
        await self._admin.terminate(topic)

    async def _is_open(self, topic: str) -> bool:
        try:
            return not await self._admin.is_terminated(topic)
        except NotFound:
            return False

    async def _slots(self, place: _Place) -> list[str]:
        try:
            count = (await self._admin.partitioned_metadata(place(GROUPS))).partitions
        except NotFound:
            count = 0
        return [f"{place(GROUPS)}-partition-{index}" for index in range(count)]

    async def _copy(self, source: _Place, target: _Place) -> None:
        slots = await self._slots(source)
        await self._delete(target, HEARTBEATS if not self._undo else "")
        count = len(slots) or self._settings.groups.slots
        await create_log(self._admin, target(GROUPS), count, {UNFINISHED: "true"})
        for index, slot in enumerate(slots):
            await self._copy_records(slot, f"{target(GROUPS)}-partition-{index}")
        if await self._exists(source(SECURITY)):
            await self._admin.create_non_partitioned(target(SECURITY))
            await self._copy_records(source(SECURITY), target(SECURITY))
        if await self._exists(source(VIEW_LOG)):
            await self._copy_view(source(VIEW_LOG), target(VIEW_LOG))
        await self._admin.remove_topic_property(target(GROUPS), UNFINISHED)

    async def _copy_records(self, source: str, target: str) -> None:
        records = await self._records(source)
        producer = self._client.producer(target, must_exist=True)
        try:
            for part in parts([Kept(*record) for record in records.items()]):
                await producer.send(*pack([Record(*one) for one in part]), len(part))
        finally:
            await producer.close(flush=False)
        if await self._records(target) != records:
            raise StartupError(f"{target} does not have what {source} has: run it again")
        _log.info("= records moved", extra={"source": source, "target": target, "records": len(records)})

    async def _records(self, topic: str) -> dict[str, bytes]:
        """The newest values of all keys, as a bridge would read them."""
        found: dict[str, bytes] = {}
        end = await self._client.last_position(topic)
        if end == EARLIEST:
            return found
        async with self._reading(topic) as slot:
            position: Position = EARLIEST
            while position < end:
                read = await slot.next_within(_READ_SECONDS)
                position = read.position
                for key, value in read.records:
                    found.pop(key, None)
                    if value is not None:
                        found[key] = value
        return found

    @asynccontextmanager
    async def _reading(self, topic: str) -> AsyncIterator[SlotReader]:
        reader = await self._client.reader(topic, EARLIEST, read_compacted=True)
        slot = SlotReader(reader, Succession(), GroupMetrics(), _log.bind(topic=topic))
        try:
            yield slot
        finally:
            await slot.close()

    async def _copy_view(self, source: str, target: str) -> None:
        """The nodes' names and ids; positions in the log, of which ticks tell, are other ones there."""
        log_file = ViewLogFile(self._client, source)
        await log_file.open()
        await self._admin.create_non_partitioned(target)
        if log_file.view.version:
            record = WholeView(Sender("operator", new_incarnation()), 0, log_file.view, "the state was moved")
            producer = self._client.producer(target, must_exist=True)
            try:
                await producer.send(pb.MessageMetadata(), encode(record), 1)
            finally:
                await producer.close(flush=False)

    async def _exists(self, topic: str) -> bool:
        try:
            await self._client.partitions(topic)
        except PulsarError as error:
            if error.code == pb.TopicNotFound:
                return False
            raise
        return True

    # ---- what is not needed any more ---------------------------------------------------------------------------------

    async def _delete(self, place: _Place, *more: str) -> None:
        """What an interrupted move, or one in the other direction, has left there."""
        with suppress(NotFound):
            await self._admin.delete_partitioned(place(GROUPS))
        for name in (SECURITY, VIEW_LOG, *filter(None, more)):
            with suppress(NotFound):
                await self._admin.delete_non_partitioned(place(name))

    async def _forget(self, source: _Place, target: _Place) -> None:
        """Let bridges of before the move start, and none of after it."""
        if await self._exists(target(HEARTBEATS)) and not await self._is_open(target(HEARTBEATS)):
            await self._admin.delete_non_partitioned(target(HEARTBEATS))
        await self._delete(source, HEARTBEATS)

    def _tell(self, text: str) -> None:
        print(text, file=self._out)
