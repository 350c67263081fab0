"""One client socket: tells the connection's state what has happened, and does what the state then allows.

The states are in `state`, how requests run in `runner`, how a connection ends when the process does in `draining`. A
frame that breaks the protocol closes the connection, as in Kafka.
"""

import asyncio
from typing import Protocol, cast

from bridge import log
from bridge.api import Session
from bridge.connection.budget import Budget
from bridge.connection.draining import LINGER_SECONDS, Drain
from bridge.connection.intake import Intake
from bridge.connection.parts import Refused, address_of, join_with_end
from bridge.connection.responses import PendingResponseBytes, ResponseWriter
from bridge.connection.runner import Environment, RequestRunner
from bridge.connection.state import ConnectionState, Event, State
from bridge.kafka.frames import FrameError

_log = log.get(__name__)


class Owner(Environment, Protocol):
    """The listener: what its connections share, and what it counts of them."""

    name: str
    budget: Budget
    pending_bytes: PendingResponseBytes
    scratch: memoryview

    def admit(self, connection: "ClientConnection") -> bool:
        """Take the connection in; False when there are too many."""

    def closed(self, connection: "ClientConnection") -> None:
        """The connection's socket is gone."""

    def forget(self, connection: "ClientConnection") -> None:
        """The connection's last request is done, too."""

    def show_paused(self, connection: "ClientConnection", paused: bool) -> None:
        """Count the connection as not read, or not."""


class ClientConnection(asyncio.BufferedProtocol):
    """A client's socket."""

    def __init__(self, listener: Owner, number: int) -> None:
        self._listener = listener
        self._metrics = listener.broker.metrics
        self._limit = listener.broker.settings.kafka.max_in_flight_requests
        self._loop = asyncio.get_running_loop()
        max_bytes = listener.broker.settings.kafka.max_request_bytes
        self._intake = Intake(max_bytes, listener.budget, listener.scratch, self._memory_granted)
        self._number = number
        self._state = ConnectionState()
        self._drain: Drain | None = None
        self._linger_timer: asyncio.TimerHandle | None = None
        self._reading = True
        self._shown_paused = False
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
        self._session = Session(
            id=self._number,
            peer=peer,
            listener=self._listener.name,
            remaining_response_bytes=pending.remaining,
            reserve_response_bytes=pending.add,
        )
        self._runner = RequestRunner(self, self._listener, self._session, self._state, self._intake, self._writer)
        _log.debug("= connected", extra=self.log_fields())
        if not self._listener.admit(self):
            self.refuse(Refused("too_many_connections"))

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
            return self.refuse(Refused(error.reason, size=error.size))
        if self._drain is not None and self._intake.frames and self._drain.sent_on(self._state):
            self._state.on(Event.SENT_ON)
        self.wake()

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
        if self._linger_timer is not None:
            self._linger_timer.cancel()
        if self._drain is not None:
            self._drain.stop()
        self._writer.close()
        self._intake.drop_partial()
        self._runner.cancel_reads()
        self._runner.flush()  # what was held
        self._session.closed()
        self._listener.closed(self)
        self.wake()

    def drain(self) -> None:
        """Answer what has been received, and end when little can be on its way."""
        if self._state.on(Event.DRAIN) is State.DRAINING and self._drain is None:
            self._drain = self._runner.drain = Drain(self._loop, self.wake)
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
        closing = self._state.state is State.CLOSING
        silent = now - self._active_at()
        clients_turn = not self._writer.writable or not (self._runner.in_flight or self._intake.frames)
        midway = self._intake.midway and (self._reading or not self._writer.writable)
        slow = self._reading and self._intake.is_slow(now, stall_seconds)
        if (clients_turn and silent >= idle_seconds) or slow or ((midway or closing) and silent >= stall_seconds):
            if not closing:
                self._metrics.rejected("idle")
                _log.info("= closed for silence", extra=self.log_fields(seconds=round(silent, 1), midway=midway))
            self.abort()

    # ---- what may be done now ----------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Do whatever has become possible: start requests, go on to the end, read or stop reading."""
        if self._intake.frames:
            self._runner.start()
        if self._state.draining:
            self._go_on_draining(cast(Drain, self._drain))
        if self._state.ends_when_idle and self._runner.idle and not (self._intake.frames or self._writer):
            self._end()
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
        elif state is State.CLOSING:
            self._close_transport()
        else:  # tells the client that nothing more comes, and closes when it has understood
            self._linger_timer = self._loop.call_later(LINGER_SECONDS, self.close)
            self._transport.write_eof()

    def _steer_reading(self) -> None:
        """Read exactly when there is room for what may come."""
        state, intake = self._state, self._intake
        wanted = state.discards or (
            state.may_read(
                self._writer.writable, len(intake.frames) + self._runner.unanswered, self._limit, intake.is_ahead
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
        _log.warning("! refused", extra=self.log_fields(reason=refused.reason, **refused.fields))
        self.close()

    def close(self) -> None:
        """Close after what is written has gone out."""
        if self._state.state is not State.CLOSING:
            self._state.on(Event.CLOSE)
            self._close_transport()

    def _close_transport(self) -> None:
        self._intake.drop()
        self._writer.close()
        self._transport.close()

    def log_fields(self, **fields: object) -> dict[str, object]:
        """These fields and those that name the connection."""
        return {"conn": self._number, "peer": self._session.peer, "client": self._session.client_id[:128], **fields}
