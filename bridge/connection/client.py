"""One client socket: tells the connection's state what has happened, and does what the state then allows.

The states are in `state`, how requests run in `runner`, how a connection ends when the process does in `draining`. A
frame that breaks the protocol closes the connection, as in Kafka.
"""

import asyncio
from contextlib import suppress
from typing import cast

from bridge.connection.draining import LINGER_SECONDS, Drain
from bridge.connection.intake import Intake
from bridge.connection.owner import Owner
from bridge.connection.parts import Refused, address_of, is_gone, join_with_end, stranger
from bridge.connection.responses import ResponseWriter
from bridge.connection.runner import RequestRunner
from bridge.connection.state import ConnectionState, Event, State
from bridge.connection.strangers import StrangerPlace
from bridge.kafka.frames import FrameError
from bridge.requests.session import Session
from bridge.security.mapping import NoMatchingRule
from bridge.security.principal import ANONYMOUS, Principal
from bridge.security.sasl.login import GRACE_SECONDS, MAX_BYTES, Login
from bridge.telemetry import log

_log = log.get(__name__)


class ClientConnection(asyncio.BufferedProtocol):
    """A client's connection: its socket's events, and its state."""

    def __init__(self, listener: "Owner[ClientConnection]", number: int, place: StrangerPlace | None = None) -> None:
        """`place`: where clients log in, its own among those that have not."""
        self._listener = listener
        self._place = place
        self._metrics = listener.broker.metrics
        self._loop = asyncio.get_running_loop()
        kafka = listener.broker.settings.kafka
        self._login = listener.login(self._logged_in)
        self._state = ConnectionState(authenticating=self._login is not None)
        self._limit = self._state.most_in_flight(kafka.max_in_flight_requests)
        if self._login is None:
            self._intake = Intake(
                kafka.max_request_bytes, listener.budget, listener.scratch, self._memory_granted, self._memory_denied
            )
        else:
            budget = listener.shared.login_budget
            self._intake = Intake(
                MAX_BYTES, budget, listener.scratch, self._memory_granted, self._memory_denied, least_bytes=0
            )
        self._number = number
        self._connected_at = self._loop.time()
        self._session_timer: asyncio.TimerHandle | None = None
        self._drain: Drain | None = None
        self._linger_timer: asyncio.TimerHandle | None = None
        self._reading = True
        self._shown_paused = False
        self._leaving = False
        self._session: Session
        self._transport: asyncio.Transport
        self._writer: ResponseWriter
        self._runner: RequestRunner

    # ---- what the transport and the listener call --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        self._transport = cast(asyncio.Transport, transport)
        pending = self._listener.pending_bytes
        self._writer = ResponseWriter(self._transport, pending, self.wake)
        self._intake.received_at = self._loop.time()
        peer = address_of(transport.get_extra_info("peername"))
        principal = self._principal()
        self._session = Session(
            id=self._number,
            peer=peer,
            listener=self._listener.name,
            connected_at=self._connected_at,
            login=self._login,
            principal=principal or ANONYMOUS,
            remaining_response_bytes=pending.remaining,
            reserve_response_bytes=pending.add,
            clients=self._listener.shared.metrics.clients,
            by_principal=self._listener.shared.metrics.by_principal,
        )
        self._runner = self._listener.runner(
            self, self._listener, self._session, self._state, self._intake, self._writer
        )
        _log.debug("= connected", extra=self.log_fields())
        if not self._listener.admit(self):
            self.refuse(Refused("too_many_connections"))
        elif principal is None:
            self.refuse(Refused("no_principal"))

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes shall go."""
        return self._intake.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have come."""
        if self._state.discards:  # as if they had come after the end: not begun, so safe to send again
            return
        try:
            self._intake.received(nbytes, self._loop.time())
        except FrameError as error:
            return self.refuse(Refused(stranger(error.size) or error.reason, size=error.size))
        if self._drain is not None and self._intake.frames and self._drain.sent_on(self._state):
            self._state.on(Event.SENT_ON)
        self.wake()
        if self._intake.has_partial and self._reading and not self._listener.shared.reads.take(nbytes, self._read_on):
            self._transport.pause_reading()

    def _read_on(self) -> None:
        """It is the next iteration of the loop."""
        if self._reading and not (self._state.lost or self._state.half_closed or self._transport.is_closing()):
            self._transport.resume_reading()

    def eof_received(self) -> bool:
        """The client sends no more; it may still read, so it gets its responses."""
        self._state.on(Event.EOF)
        self._intake.drop_partial()
        self.wake()
        return True

    def pause_writing(self) -> None:
        """The client does not read its responses."""
        self._writer.pause()

    def resume_writing(self) -> None:
        """The client has read."""
        self._writer.resume(self._loop.time())
        self.wake()

    @property
    def host(self) -> str:
        """The client's address, without its port."""
        return self._session.host

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone. What has been asked is done all the same, as in Kafka, except for what only reads."""
        _log.debug("= disconnected", extra=self.log_fields(error=exc))
        self._state.on(Event.CONNECTION_LOST)
        self._writer.close()
        self._leaving = True
        self._listener.shared.departures.call(self._left)

    def _left(self) -> None:
        self._leaving = False
        for timer in (self._linger_timer, self._session_timer):
            if timer is not None:
                timer.cancel()
        if self._drain is not None:
            self._drain.stop()
        self._runner.throttle.stop()
        self._intake.drop_partial()
        self._runner.cancel_reads()
        self._runner.flush()  # what was held
        self._session.closed()
        self._listener.closed(self)
        self._leave_place()
        self.wake()

    def drain(self) -> None:
        """Answer what has been received, and end when little can be on its way."""
        was, state = self._state.state, self._state.on(Event.DRAIN)
        if was is State.AUTHENTICATING:
            self._close_transport()
        elif state is State.DRAINING and self._drain is None:
            self._drain = self._runner.drain = Drain(self._loop, self.wake)
            self._runner.throttle.stop()
            self.wake()

    def abort(self) -> None:
        """Close at once."""
        self._state.on(Event.CLOSE)
        self._intake.drop()
        self._transport.abort()

    def sweep(self, now: float, idle_seconds: float, stall_seconds: float) -> None:
        """Close the connection if its client has been silent too long.

        Silence counts while it is the client's turn: not while a handler runs, nor while we do not read for lack of
        memory. A half-sent request holds memory, so it may not rest for as long as an idle connection, nor come byte by
        byte.
        """
        if self._state.lost:
            return
        if self._state.state is State.AUTHENTICATING and now - self._connected_at >= stall_seconds:
            return self.refuse(Refused("login_timeout"))
        if self._runner.throttle.muted and is_gone(self._transport):
            self._runner.throttle.stop()
            self._steer_reading()  # which tells the end
        closing = self._state.state is State.CLOSING
        silent = now - self._active_at()
        waits = self._runner.throttle.muted or self._runner.in_flight or self._intake.frames
        clients_turn = not self._writer.writable or not waits
        midway = self._intake.midway and (self._reading or not self._writer.writable)
        slow = self._reading and self._intake.is_slow(now, stall_seconds)
        if (clients_turn and silent >= idle_seconds) or slow or ((midway or closing) and silent >= stall_seconds):
            if not closing:
                self._metrics.rejected("idle")
                _log.info("= closed for silence", extra=self.log_fields(seconds=round(silent, 1), midway=midway))
            self.abort()

    def _principal(self) -> Principal | None:
        """Whom the connection acts for until it logs in; None if no rule makes a name of its certificate."""
        if self._login is not None:  # it decides, whatever certificate there is
            return ANONYMOUS
        try:
            return self._listener.principal_of(self._transport)
        except (NoMatchingRule, ValueError):
            return None

    # ---- the log-in --------------------------------------------------------------------------------------------------

    def _logged_in(self) -> None:
        """The client has logged in, perhaps again."""
        before, after = self._state.state, self._state.on(Event.AUTHENTICATED)
        if before is State.AUTHENTICATING and after is State.OPEN:
            kafka = self._listener.broker.settings.kafka
            self._limit = kafka.max_in_flight_requests
            self._runner.admit(self._limit)
            self._intake.admit(kafka.max_request_bytes, self._listener.budget)
            self._leave_place()
        if self._session_timer is not None:
            self._session_timer.cancel()
        login = cast(Login, self._login)
        if login.ends_at is not None:
            self._session_timer = self._loop.call_at(login.ends_at + GRACE_SECONDS, self._session_ended)

    def _leave_place(self) -> None:
        if self._place is not None:
            self._place.leave()

    def _session_ended(self) -> None:
        """Close, unless it is the client's turn since lately: some log in again when they have all their answers."""
        if self._state.state in (State.CLOSING, State.LOST, State.FINISHED):
            return
        now = self._loop.time()
        since = now if self._runner.in_flight or self._intake.frames else self._active_at()
        if since + GRACE_SECONDS > now:
            self._session_timer = self._loop.call_at(since + GRACE_SECONDS, self._session_ended)
        else:
            self.refuse(Refused("session_expired"))

    # ---- what may be done now ----------------------------------------------------------------------------------------

    def progressed(self) -> None:
        """A request has begun or is answered. There is more room now, so what is read is read on."""
        state = self._state
        if state.draining or state.ends_when_idle or state.lost:
            return self.wake()
        if self._intake.frames:
            self._runner.start()
        if not self._reading or self._runner.throttle.muted or not self._writer.writable:
            self._steer_reading()

    def wake(self) -> None:
        """Do whatever has become possible: start requests, go on to the end, read or stop reading."""
        if self._leaving or self._state.finished:
            return
        if self._intake.frames:
            self._runner.start()
        if self._state.draining:
            self._go_on_draining(cast(Drain, self._drain))
        if self._state.ends_when_idle and self._runner.idle and not (self._intake.frames or self._writer):
            self._end()
        if not self._state.finished:
            self._steer_reading()

    def _go_on_draining(self, drain: Drain) -> None:
        intake, draining = self._intake, self._state.state is not State.FLUSHING
        if intake.frames or not draining:
            self._runner.cut_poll_short()
        if draining and self._runner.only_polls and not intake.frames and (drain.late or not intake.midway):
            client_is_done = self._state.half_closed or intake.midway
            if client_is_done or drain.may_end(self._active_at(), intake.reads, self._state.holds):
                self._flush_and_end()

    def _flush_and_end(self) -> None:
        if self._state.holds:
            join_with_end(self._transport)
        self._state.on(Event.DRAINED)
        self._intake.drop_partial()  # nothing is read any more: the rest of it would be no request
        self._runner.flush()
        self._loop.call_soon(self.wake)

    def _end(self) -> None:
        """Nothing is left to do."""
        state = self._state.on(Event.IDLE)
        if state is State.FINISHED:
            self._listener.forget(self)
            self._let_go()
        elif state is State.CLOSING:
            self._close_transport()
        else:  # tells the client that nothing more comes, and closes when it has understood
            drain = self._drain
            seconds = LINGER_SECONDS if drain is None else drain.linger_seconds(self._writer.written_at)
            self._linger_timer = self._loop.call_later(seconds, self.close)
            with suppress(OSError):  # the client has reset the connection: `connection_lost` comes
                self._transport.write_eof()

    def _let_go(self) -> None:
        """Leave no cycle: what a connection has goes with it, and is no garbage that has to be found."""
        self._session.mutations = self._session.login = self._login = None
        self._intake.let_go()
        del self._intake, self._runner, self._transport, self._writer

    def _steer_reading(self) -> None:
        """Read exactly when there is room for what may come."""
        state, intake = self._state, self._intake
        wanted = state.discards or (
            state.may_read(
                self._writer.writable,
                len(intake.frames) + self._runner.unanswered,
                self._limit,
                intake.is_ahead,
                self._runner.throttle.muted and not intake.has_partial,
            )
            and (self._drain is None or self._drain.reading)
            and intake.has_memory()
        )
        silent = state.lost or state.half_closed  # the transport reads no more by itself then
        if wanted != self._reading:
            self._reading = wanted
            intake.begun_at = self._loop.time()
            if not silent:
                (self._transport.resume_reading if wanted else self._transport.pause_reading)()
        if self._shown_paused == (wanted or silent):
            self._shown_paused = not self._shown_paused
            self._listener.show_paused(self, self._shown_paused)

    def throttled_no_more(self) -> None:
        """The client has waited for its quota: its silence was the bridge's doing."""
        self._intake.received_at = self._loop.time()
        self.wake()

    def _memory_denied(self) -> None:
        self._loop.call_soon(self.refuse, Refused("no_memory"))  # another connection's work goes on first

    def _memory_granted(self) -> None:
        self._intake.received_at = self._loop.time()
        self._steer_reading()

    def _active_at(self) -> float:
        """When something was last received or sent, or was waited for in vain by the bridge's own fault."""
        return max(self._intake.received_at, self._writer.written_at)

    # ---- the end -----------------------------------------------------------------------------------------------------

    def refuse(self, refused: Refused) -> None:
        """Close for what the client has sent."""
        self._metrics.rejected(refused.reason)
        line = self._listener.shared.refusals.next_line()
        if line is not None:
            _log.warning("! refused", extra=self.log_fields(reason=refused.reason, **refused.fields, **line))
        self.close()

    def close(self) -> None:
        """Close after what is written has gone out."""
        if self._state.state is not State.CLOSING and not self._state.lost:
            self._state.on(Event.CLOSE)
            self._close_transport()

    def close_soon(self) -> None:
        """Let the client hang up first, for a moment: kafka-python drops an answer that comes with the end."""
        if self._linger_timer is None:
            self._linger_timer = self._loop.call_later(LINGER_SECONDS, self.close)

    def _close_transport(self) -> None:
        self._intake.drop()
        self._writer.close()
        self._transport.close()

    def log_fields(self, **fields: object) -> dict[str, object]:
        """These fields and those that name the connection."""
        return {"conn": self._number, "peer": self._session.peer, "client": self._session.client_id[:128], **fields}
