"""A model of the shell around the state machine: connection, messages, readers, timer."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf

from bridge.cluster.membership.effects import (
    Append,
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
    WatchHeartbeats,
)
from bridge.cluster.membership.records import Heartbeat, LogRecord, Tick
from bridge.cluster.membership.state import Membership
from bridge.cluster.membership.timing import MembershipConfig
from bridge.cluster.membership.view import NodeRegistration
from bridge.pulsar.types import Position
from tests.cluster.simulation.clock import Clock
from tests.cluster.simulation.pulsar import Pulsar, Session, Topic


@dataclass(eq=False, slots=True)
class _Sending:
    """A record without a receipt."""

    topic: Topic
    record: Heartbeat | LogRecord
    at: float | None = None
    """When it was first sent."""


class Shell:
    """One life of a node."""

    fault = ""
    """What was done to it last."""
    is_alive = True
    is_frozen = False
    is_half_open = False
    cut_in = False
    cut_out = False
    cut_since: float | None = None
    is_mute = False
    """Its heartbeats do not go out, though its connection is there."""
    muted_at = 0.0
    read_delay = 0.0
    read_delay_for = 0.0
    slow_until = -99.0
    slow_connect = 0.0
    """The next connection takes so long."""
    bad_since: float | None = None
    """Since when something has been wrong with this process or its network."""
    was_bad = -99.0
    """When that was last so."""
    is_removed = False
    """By an operator: it is not a member until it is restarted."""
    must_have_read = 0
    has_handed_over = False
    ended_by: Effect | None = None
    session: Session | None = None
    _out_at = 0.0
    _armed = inf
    _is_watching = False
    _frozen_at = 0.0
    _is_begun = False

    def __init__(self, clock: Clock, pulsar: Pulsar, node: NodeRegistration, config: MembershipConfig) -> None:
        self.clock, self.pulsar = clock, pulsar
        chance = clock.chance
        self._rate = chance.uniform(0.995, 1.005)
        self._offset = chance.uniform(0, 1e6)
        self.membership = Membership(node, config, self.local_now)
        self.after_event: Callable[[Shell], None] = lambda shell: None
        self.refused: list[NodeRefused] = []
        self.cursors = {"log": 0, "heartbeats": 0}
        self._unsent_requests: list[Callable[[], None]] = []
        self._inbox: list[Callable[[], None]] = []
        self._in_at: dict[str, float] = {}
        self._unsent: list[_Sending] = []
        """What has no receipt: sent again after a reconnect."""
        clock.after(chance.uniform(0.0, clock.start_within), self._connect)
        self._arm()

    # ---- what it is --------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self.membership.node.name

    @property
    def local_now(self) -> float:
        return self._offset + self._rate * self.clock.now

    @property
    def answers_pings(self) -> bool:
        return self.is_alive and not (self.is_frozen or self.cut_in or self.cut_out)

    @property
    def refused_start(self) -> bool:
        """Whether it is up and the others rightly do not admit it."""
        return self.membership.node.id >= 0 and self.membership.view.member(self.name) is None

    @property
    def is_well(self) -> bool:
        return self.answers_pings and self.membership.state is not MembershipState.ENDED

    def is_excused(self, then: float) -> bool:
        """Whether something was wrong with it then or since."""
        return not self.is_alive or self.bad_since is not None or self.was_bad > then

    # ---- connection --------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        if not self.is_alive or self.session or self.membership.state is MembershipState.ENDED:
            return
        delay, self.slow_connect = self.slow_connect, 0.0
        if delay:
            self._bad()
            self.clock.after(delay, self._connect)
            return
        if not self.answers_pings or self.pulsar.heartbeats.moves_until > self.clock.now:
            self.clock.after(self.clock.chance.uniform(0.1, 0.3), self._connect)
            return
        self.session = self.pulsar.connect(self)
        if self.session is None:
            self.clock.after(self.clock.chance.uniform(0.05, 1.2), self._connect)
            return
        if self._is_begun:
            self._attach_reader()
        self._open_name(self.session)

    def _open_name(self, session: Session) -> None:
        def answered(granted: bool) -> None:
            self._receive("answers", session, partial(self._name_answered, session, granted))

        self._send(session, lambda: self.pulsar.open(self.name, session, answered))

    def _name_answered(self, session: Session, granted: bool) -> None:
        if not granted:
            self._event(lambda: self.membership.name_refused("another", self.local_now))
            self.clock.after(self.clock.chance.uniform(0.05, 0.1), lambda: self._again(session))
            return
        self._event(lambda: self.membership.name_opened(self.local_now))
        self._good()
        if not self._is_begun:
            self._is_begun = True
            self._attach_reader()
            self._read_from_tick()
        for sending in list(self._unsent):
            self._transmit(sending)
        if self._is_watching:
            self.pulsar.heartbeats.readers[self] = None
            self.topic_grew(self.pulsar.heartbeats)

    def _attach_reader(self) -> None:
        self.pulsar.log.readers[self] = None
        self.topic_grew(self.pulsar.log)

    def _again(self, session: Session) -> None:
        if self.session is session and session.is_open and self.membership.state is not MembershipState.ENDED:
            self._open_name(session)

    def _read_from_tick(self) -> None:
        """Read the view log as a node does that starts."""
        entries = self.pulsar.log.entries
        ticks = [record for _, record in entries[-400:] if isinstance(record, Tick)]
        if ticks:
            self.cursors["log"] = max(0, self.membership.log.start_at(ticks[-1]).entry)
        end = len(entries)

        def done() -> None:
            self._read("log", end)
            self._event(lambda: self.membership.log_read(self.local_now))

        if self.session:
            self._receive("log", self.session, done)

    def connection_closed(self, session: Session) -> None:
        """The broker has closed the connection; the process learns it when it can."""

        def told() -> None:
            if self.session is session:
                self.session = None
                self.pulsar.log.readers.pop(self, None)
                self.pulsar.heartbeats.readers.pop(self, None)
                self._event(lambda: self.membership.connection_lost(self.local_now))
                self.clock.after(self.clock.chance.uniform(0.05, 1.2), self._connect)

        if self.is_alive:
            if self.answers_pings:
                told()
            else:
                self._inbox.append(told)

    # ---- messages ----------------------------------------------------------------------------------------------------

    def _send(self, session: Session, request: Callable[[], None]) -> None:
        """To the broker, in order."""
        self._out_at = max(self._out_at, self.clock.now + self.clock.latency())

        def arrive() -> None:
            if self.cut_out:
                self._unsent_requests.append(arrive)
            else:
                self.pulsar.take(session, request)

        self.clock.at(self._out_at, arrive)

    def _receive(self, channel: str, session: Session, what: Callable[[], None]) -> None:
        """From the broker, in order on its channel."""
        delay = self.read_delay if channel in self.cursors else 0.0
        when = max(self._in_at.get(channel, 0.0), self.clock.now + delay + self.clock.latency())
        self._in_at[channel] = when

        def arrive() -> None:
            if not self.is_alive or self.session is not session:
                return
            if self.is_frozen or self.cut_in:
                self._inbox.append(arrive)
            elif session.is_open:
                what()

        self.clock.at(when, arrive)

    def topic_grew(self, topic: Topic) -> None:
        """There is something to read."""
        if self.session:
            end = len(topic.entries)
            self._receive(topic.name, self.session, lambda: self._read(topic.name, end))

    def _read(self, name: str, end: int) -> None:
        topic = self.pulsar.log if name == "log" else self.pulsar.heartbeats
        if name == "heartbeats" and not self._is_watching:
            return
        while (at := max(self.cursors[name], topic.first)) < end:
            self.cursors[name] = at + 1
            record = topic.entries[at][1]
            if isinstance(record, Heartbeat):
                self._event(partial(self.membership.heartbeat_read, record, self.local_now))
            else:
                self._event(partial(self.membership.record_read, record, Position(0, at), self.local_now))

    def _publish(self, topic: Topic, record: Heartbeat | LogRecord) -> None:
        sending = _Sending(topic, record)
        self._unsent.append(sending)
        self._transmit(sending)

    def _transmit(self, sending: _Sending) -> None:
        session, record = self.session, sending.record
        if session is None or sending not in self._unsent:
            return
        if isinstance(record, Heartbeat) and self.is_mute:
            self.clock.after(0.2, lambda: self._transmit(sending))
            return

        def receipt() -> None:
            if sending in self._unsent:
                self._unsent.remove(sending)
            if isinstance(record, Heartbeat):
                self._event(lambda: self.membership.heartbeat_stored(record.at, self.local_now))

        if sending.at is None:
            sending.at = self.clock.now
        stored = partial(self._receive, "answers", session, receipt)
        sent = partial(self.pulsar.append, sending.topic, self.membership.node.sender, record, sending.at, stored)
        self._send(session, sent)

    # ---- the state machine -------------------------------------------------------------------------------------------

    def _event(self, event: Callable[[], None]) -> None:
        if not self.is_alive or self.is_frozen or self.membership.state is MembershipState.ENDED:
            return
        event()
        for effect in self.membership.take_effects():
            self._do(effect)
        self.after_event(self)
        self._arm()

    def _arm(self) -> None:
        when = max(self.clock.now, (self.membership.wake_at - self._offset) / self._rate)
        if when < self._armed - 1e-6:
            self._armed = when
            self.clock.at(when + self.clock.chance.uniform(0, 0.01), partial(self._wake, when))

    def _wake(self, when: float) -> None:
        if when == self._armed and not self.is_frozen:
            self._armed = inf
            self._event(lambda: self.membership.run(self.local_now))

    def _do(self, effect: Effect) -> None:
        match effect:
            case SendHeartbeat(heartbeat):
                self._publish(self.pulsar.heartbeats, heartbeat)
            case Append(record):
                self._publish(self.pulsar.log, record)
            case Probe(name):
                self._probe(name)
            case WatchHeartbeats(on):
                self._watch(on)
            case ReadLogFrom(tick):
                self.cursors["log"] = self.membership.log.start_at(tick).entry
                self.topic_grew(self.pulsar.log)
            case HandedOver():
                self.has_handed_over = True
                self.clock.after(self.clock.chance.uniform(0.1, 1.0), self._stop)
            case Left() | NameInUse() | Replaced():
                self.ended_by = effect
                self.clock.after(0, self.end)
            case NodeRefused():
                self.refused.append(effect)

    def _stop(self) -> None:
        if self.is_frozen:
            self.clock.after(0.5, self._stop)
        self._event(lambda: self.membership.stopped(self.local_now))

    def _watch(self, on: bool) -> None:
        self._is_watching = on
        topic = self.pulsar.heartbeats
        if on:
            topic.readers[self] = None
            self.cursors["heartbeats"] = len(topic.entries)
        else:
            topic.readers.pop(self, None)

    def _probe(self, name: str) -> None:
        session = self.session
        if session is None:
            return

        def told(granted: bool) -> None:
            if granted:  # it holds the name, if only for a moment
                self._send(session, lambda: self.pulsar.release(name, session))
            result = ProbeResult.FREE if granted else ProbeResult.BUSY
            self._event(lambda: self.membership.probe_answered(name, result, self.local_now))

        def answered(granted: bool) -> None:
            self._receive("answers", session, partial(told, granted))

        self._send(session, lambda: self.pulsar.open(name, session, answered))

    def end(self) -> None:
        """The process ends, and with it its connection."""
        self._bad()
        self.is_alive = False
        self.pulsar.log.readers.pop(self, None)
        self.pulsar.heartbeats.readers.pop(self, None)
        session = self.session
        if session and not self.is_half_open:
            self.clock.after(self.clock.latency(), lambda: self.pulsar.close(session))
        elif session:
            self.clock.after(self.clock.chance.uniform(30, 60), lambda: self.pulsar.close(session))

    def _bad(self) -> None:
        if self.bad_since is None:
            self.bad_since = self.clock.now

    def _good(self) -> None:
        if self.bad_since is not None and self.answers_pings and self.session and not self.is_mute:
            self.bad_since, self.was_bad = None, self.clock.now
