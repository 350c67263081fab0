"""One node's membership on a real Pulsar: the state machine (`state`) with its producers, readers, probes and timer.

It has a Pulsar client of its own, and so connections that carry no data. A data connection that is throttled or full
delays no heartbeat, and does not keep the broker's sign-of-life ping from being answered.
"""

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Final

from bridge.cluster.cluster import Cluster
from bridge.cluster.kept_producer import KeptProducer
from bridge.cluster.membership.effects import (
    Append,
    AskPulsar,
    Effect,
    HandedOver,
    Left,
    MembershipState,
    NameInUse,
    NodeRefused,
    Probe,
    ProbeResult,
    ReadLogFrom,
    Replaced,
    SendHeartbeat,
    ServingChanged,
    ViewChanged,
    WatchHeartbeats,
)
from bridge.cluster.membership.record_fields import InvalidClusterRecord
from bridge.cluster.membership.record_format import decode
from bridge.cluster.membership.records import Heartbeat, LogRecord, Record, TopicChange
from bridge.cluster.membership.state import Membership
from bridge.cluster.membership.timing import MembershipConfig, Timing
from bridge.cluster.membership.view import NO_NODE, NodeRegistration
from bridge.cluster.probes import Probes, producer_name
from bridge.cluster.shared_settings import different_sections
from bridge.cluster.topic_readers import TopicFollower, start_of_log
from bridge.cluster.topics import ClusterTopics
from bridge.config import ClusterSettings
from bridge.errors import StartupError
from bridge.pulsar.client import PulsarClient
from bridge.pulsar.types import Entry, PulsarError, Receipt
from bridge.runtime.futures import failed
from bridge.telemetry import log
from bridge.telemetry.metrics import ClusterMetrics

_log = log.get(__name__)

FIRST_SECOND: Final = 1_577_836_800
"""2020: a view log begins with the seconds since then as its version, so that epochs never go back."""
_JOIN_SECONDS: Final = 60.0
_LEFT_SECONDS: Final = 6.0
_ANSWER_SECONDS: Final = 2.0
_MAX_ANNOUNCED: Final = 1000
_NOT_ADMITTED: Final = (
    f"the cluster has not admitted this node within {_JOIN_SECONDS:.0f} s; its controller's log says why"
)


def new_incarnation() -> int:
    """Greater than that of any earlier life of this node, unless its clock was ahead; that is noticed."""
    return time.time_ns() // 1_000_000


def first_version() -> int:
    """The version of a view log that begins now."""
    return int(time.time()) - FIRST_SECOND


class ClusterMember:
    """Starts, keeps and ends one node's membership; `cluster` is what it tells of it."""

    def __init__(
        self,
        cluster: Cluster,
        node: NodeRegistration,
        config: MembershipConfig,
        client: PulsarClient,
        topics: ClusterTopics,
        metrics: ClusterMetrics,
    ) -> None:
        self.ended: asyncio.Future[StartupError] = asyncio.get_running_loop().create_future()
        """Done when this node can be a member no more, though it has not left: the error says why."""
        self.on_topic_change: list[Callable[[TopicChange], None]] = []
        """Called when another node has created, deleted or changed a topic."""
        self._loop = asyncio.get_running_loop()
        self._cluster = cluster
        self._client = client
        self._topics = topics
        self._metrics = metrics
        self._membership = Membership(node, config, self._loop.time())
        self._heartbeats: KeptProducer | None = None
        self._appender: KeptProducer | None = None
        self._log_reader = TopicFollower(client, topics.view_log, self._log_entry)
        self._heartbeat_reader = TopicFollower(client, topics.heartbeats, self._heartbeat_entry)
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._probes = Probes(client, topics.heartbeats, metrics, self._probe_answered)
        self._joined: asyncio.Future[None] = self._loop.create_future()
        self._handed_over: asyncio.Future[None] = self._loop.create_future()
        self._left: asyncio.Future[None] = self._loop.create_future()
        self._is_log_read = False
        self._read_age = 0.0  # seconds since the record was written that was read last
        self._is_leaving = False
        self._is_closed = False
        self._announced: deque[TopicChange] = deque(maxlen=_MAX_ANNOUNCED)
        """Own changes that have not come back yet."""
        self._different: list[str] = []

    # ---- life --------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Become a member; StartupError says why that cannot be."""
        await self._topics.create(self._client)
        tick, end = await start_of_log(self._client, self._topics.view_log)
        start = None if tick is None else self._membership.log.start_at(tick)
        topics, name = self._topics, producer_name(self._membership.node.name)
        self._heartbeats = KeptProducer(self._client, topics, topics.heartbeats, name, self._attachment)
        self._appender = KeptProducer(self._client, topics, topics.view_log)
        self._log_reader.start(start, until=end, caught_up=self._log_read)
        self._arm()
        try:
            async with asyncio.timeout(_JOIN_SECONDS):
                await asyncio.shield(self._joined)  # its state is read until the end
        except TimeoutError:
            raise StartupError(self._id_is_taken() or _NOT_ADMITTED) from None
        self._spawn(self._topics.limit_retention())

    async def leave(self) -> None:
        """Give away what this node leads; returns when other nodes have it, or it has waited long enough."""
        self._is_leaving = True
        if self._joined.done() and not self.ended.done():
            self._event(self._membership.leave)
            await asyncio.wait((self._handed_over, self.ended), return_when=asyncio.FIRST_COMPLETED)

    async def close(self) -> None:
        """Tell the others that this node is gone, and close everything."""
        if self._joined.done() and not self._joined.exception() and not self.ended.done():
            self._event(self._membership.stopped)
            await asyncio.wait((self._left,), timeout=_LEFT_SECONDS)
        await self.abort()

    async def abort(self) -> None:
        """Close everything, and tell nothing: the others find out."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for producer in (self._heartbeats, self._appender):
            if producer is not None:
                producer.close()
        tasks = [*self._tasks, *self._probes.cancel()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._log_reader.close()
        await self._heartbeat_reader.close()
        await self._client.close()

    def announce(self, change: TopicChange) -> None:
        """Tell all nodes that a topic has changed: a hint for their caches."""
        if self._appender is not None and not self._is_closed:
            self._announced.append(change)
            self._appender.send(change).add_done_callback(partial(self._announcement_sent, change))

    def _announcement_sent(self, change: TopicChange, sent: "asyncio.Future[Receipt]") -> None:
        if failed(sent) and change in self._announced:
            self._announced.remove(change)  # the next like it is another node's

    @property
    def state(self) -> MembershipState:
        """What this node is."""
        return self._membership.state

    # ---- what is sent ------------------------------------------------------------------------------------------------

    def _attachment(self, attached: bool) -> None:
        if attached:
            self._event(self._membership.name_opened)
        else:
            self._probes.cancel()
            self._event(self._membership.connection_lost)

    def _send_heartbeat(self, heartbeat: Heartbeat) -> None:
        if self._heartbeats is not None:
            self._heartbeats.send(heartbeat).add_done_callback(partial(self._heartbeat_sent, heartbeat.at))

    def _heartbeat_sent(self, at: float, sent: "asyncio.Future[Receipt]") -> None:
        if sent.cancelled() or sent.exception() is not None:
            self._event(self._membership.heartbeat_failed)
            return
        self._metrics.heartbeat_seconds.observe(self._loop.time() - at)
        self._event(partial(self._membership.heartbeat_stored, at))

    def _probe_answered(self, name: str, result: ProbeResult) -> None:
        self._event(lambda now: self._membership.probe_answered(name, result, now))

    def _append(self, record: LogRecord) -> None:
        if self._appender is None:
            return
        try:
            sent = self._appender.send(record)
        except InvalidClusterRecord as error:
            _log.error("! cluster record not written", extra={"reason": str(error)})
            self._loop.call_soon(self._event, partial(self._membership.append_failed, record))
            return
        sent.add_done_callback(partial(self._appended, record))

    def _appended(self, record: LogRecord, sent: "asyncio.Future[Receipt]") -> None:
        if sent.cancelled() or sent.exception() is not None:
            self._event(partial(self._membership.append_failed, record))

    # ---- what is read ------------------------------------------------------------------------------------------------

    def _log_entry(self, entry: Entry) -> None:
        self._read_age = max(time.time() - entry.metadata.publish_time / 1000, 0.0)
        record = self._decoded(entry)
        if isinstance(record, TopicChange):
            self._topic_changed(record)
        if record is not None and not isinstance(record, Heartbeat):
            self._event(lambda now: self._membership.record_read(record, entry.position, now))

    def _topic_changed(self, change: TopicChange) -> None:
        if change in self._announced:
            self._announced.remove(change)
        elif self._is_log_read:
            for callback in self.on_topic_change:
                callback(change)

    def _log_read(self) -> None:
        self._is_log_read = True
        self._event(self._membership.log_read)
        self._publish()

    def _heartbeat_entry(self, entry: Entry) -> None:
        record = self._decoded(entry)
        if isinstance(record, Heartbeat):
            self._event(partial(self._membership.heartbeat_read, record))

    def _decoded(self, entry: Entry) -> Record | None:
        try:
            return decode(entry.payload)
        except InvalidClusterRecord as error:
            self._metrics.unreadable.inc()
            _log.warning("! cluster record unreadable", extra={"position": str(entry.position), "reason": str(error)})
            return None

    # ---- the state machine -------------------------------------------------------------------------------------------

    def _event(self, event: Callable[[float], None]) -> None:
        if self._is_closed:
            return
        event(self._loop.time())
        self._after()

    def _after(self) -> None:
        changed = False
        for effect in self._membership.take_effects():
            changed |= isinstance(effect, ViewChanged | ServingChanged)
            self._do(effect)
        if changed:
            self._publish()
        self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        now = self._loop.time()
        self._timer = self._loop.call_at(max(self._membership.wake_at, now), self._wake)

    def _wake(self) -> None:
        if self._heartbeats is not None and self._heartbeats.is_refused_name:
            self._event(partial(self._membership.name_refused, "another process"))
        self._event(self._membership.run)

    def _do(self, effect: Effect) -> None:
        match effect:
            case SendHeartbeat(heartbeat):
                self._send_heartbeat(heartbeat)
            case Append(record):
                self._append(record)
            case Probe(name):
                self._probes.start(name)
            case AskPulsar():
                self._spawn(self._ask_pulsar())
            case WatchHeartbeats(on):
                self._heartbeat_reader.start_at_end() if on else self._heartbeat_reader.stop()
            case ReadLogFrom(tick):
                self._log_reader.restart(self._membership.log.start_at(tick))
            case _:
                self._note(effect)

    def _note(self, news: Effect) -> None:
        match news:
            case ViewChanged():
                self._log_view(news)
            case ServingChanged(serving) if self._is_leaving:
                _log.info("= serving", extra={"what": serving.value, "reason": "this node leaves"})
            case ServingChanged(serving) if self._joined.done():
                _log.warning("! serving", extra={"what": serving.value, "reason": news.cause})
            case NodeRefused(name, reason):
                _log.warning("! node not admitted", extra={"node": name, "reason": reason})
            case HandedOver():
                _complete(self._handed_over)
            case Left():
                _complete(self._left)
            case NameInUse(holder):
                self._end(StartupError(self._name_in_use(holder)))
            case Replaced():
                self._end(StartupError("another process has started with this node's name, and has taken its place"))

    def _publish(self) -> None:
        """Tell the rest of the process what this node knows and may do."""
        membership = self._membership
        if not self._is_log_read:  # views of the past
            return self._cluster.observe(membership.view, lambda: self._loop.time() - self._read_age)
        mine = membership.view.member(membership.node.name)
        is_mine = mine is not None and mine.incarnation == membership.node.incarnation
        node_id = mine.id if mine is not None and is_mine else NO_NODE
        self._cluster.update(membership.view, node_id, membership.serving)
        self._update_metrics()
        if is_mine:
            _complete(self._joined)

    def _log_view(self, change: ViewChanged) -> None:
        if not self._is_log_read:
            return
        view, leader = change.after, change.after.leader
        fields = {
            "version": view.version,
            "members": len(view.members),
            "controller": "none" if leader is None else leader.name,
            "reason": change.reason,
        }
        _log.info("= view", extra=fields)
        self._compare_settings(leader)

    def _compare_settings(self, leader: NodeRegistration | None) -> None:
        different = [] if leader is None else different_sections(self._membership.node.settings, leader.settings)
        if leader is not None and different and different != self._different:
            fields = {"sections": ",".join(different), "controller": leader.name}
            _log.warning("! settings differ from the controller's", extra=fields)
        self._different = different

    def _end(self, why: StartupError) -> None:
        if not self._joined.done():
            self._joined.set_exception(why)
        if not self.ended.done():
            _log.error("! membership ended", extra={"reason": str(why)})
            self.ended.set_result(why)

    def _name_in_use(self, holder: str) -> str:
        name = self._membership.node.name
        known = self._membership.view.member(name)
        where = ", ".join(f"{host}:{port}" for _, host, port in known.endpoints) if known is not None else holder
        return f"cluster.name = {name}: another bridge has this name ({where}); each node needs its own"

    def waits_for(self) -> str:
        """What a start waits for, in words for an operator."""
        taken = self._id_is_taken()
        return "the cluster to admit this node" + (f": {taken}" if taken else "")

    def _id_is_taken(self) -> str:
        """What an operator has to know of the node that has this one's id; empty where there is none."""
        node, holder = self._membership.node, self._membership.view.members.get(self._membership.node.id)
        if node.id == NO_NODE or holder is None or holder.name == node.name:
            return ""
        return f"kafka.node_id = {node.id} is the id of node {holder.name}: each node needs its own"

    async def _ask_pulsar(self) -> None:
        with suppress(PulsarError, TimeoutError):
            async with asyncio.timeout(_ANSWER_SECONDS):
                await self._client.partitions(self._topics.view_log)
            self._event(self._membership.pulsar_answered)

    # ---- within ------------------------------------------------------------------------------------------------------

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _update_metrics(self) -> None:
        membership, metrics = self._membership, self._metrics
        metrics.members.set(len(membership.view.members))
        metrics.view_version.set(membership.view.version)
        metrics.is_controller.set(int(membership.state is MembershipState.CONTROLLER))
        metrics.slots_led.set(len(self._cluster.snapshot.led_by(self._cluster.node_id)))
        metrics.void_records.value = membership.void_records


def _complete(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def config_for(settings: ClusterSettings, groups: int) -> MembershipConfig:
    """What a node that starts now is given; `groups`: how many slots the groups have."""
    return MembershipConfig(
        timing=Timing(dead=settings.dead_seconds, drain=settings.drain_seconds),
        slots=settings.slots,
        groups=groups,
        first_version=first_version(),
        chance=random.random(),  # noqa: S311 - no secret
    )
