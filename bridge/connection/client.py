"""One client socket: requests are run one after another, and answered in their order.

States. A connection is in the first row that applies:

| state     | when                                       | reads | starts requests      | leaves it by                |
|-----------|--------------------------------------------|-------|----------------------|-----------------------------|
| lost      | the socket is gone                         | no    | what changes things  | its last request's end      |
| closing   | a refused frame, a failed handler          | no    | no                   | `connection_lost`           |
| lingering | drained; waits for the client to hang up   | thrown| no                   | its end, or LINGER_SECONDS  |
|           |                                            | away  |                      |                             |
| draining  | the process stops; see `draining`          | for a | yes                  | nothing left: lingering     |
|           |                                            | while |                      |                             |
| ended     | the client sends no more                   | no    | yes                  | nothing left to do: closing |
| blocked   | the client does not read its answers       | no    | no                   | `resume_writing`            |
| full      | max_in_flight_requests or READ_AHEAD_BYTES | no    | yes                  | an answer, or memory given  |
|           | received, or memory out                    |       |                      | back                        |
| open      | else                                       | yes   | yes                  |                             |

A request goes frame → `intake` → its turn (`turns`) → handler (`_work`, one task while there is something to do) →
`_started`, which keeps the order of the answers → `_outbox` → socket. A handler that returns `DeferredResponse` lets
the next request start (api.py). A frame that breaks the protocol closes the connection, as Kafka does; so does a
handler that fails unforeseen: a client must never wait for an answer that will not come.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from logging import DEBUG
from typing import TYPE_CHECKING, Any, cast

from bridge import log
from bridge.api import DeferredResponse, Session
from bridge.connection.answers import EncodedResponse, InFlightRequest, ResponseWriter, is_long, made
from bridge.connection.draining import LINGER_SECONDS, Drain
from bridge.connection.intake import Intake
from bridge.connection.parts import Refused, address_of, cancelled_from_outside, join_with_end
from bridge.connection.requests import identify, perform
from bridge.errors import KafkaError
from bridge.fairness import ASKER
from bridge.kafka import frames, message
from bridge.turns import LOOP_SHARE, LoopShare, Metered

if TYPE_CHECKING:
    from bridge.connection.listener import Listener

_log = log.get(__name__)


class ClientConnection(asyncio.BufferedProtocol):
    """A client's socket."""

    def __init__(self, listener: "Listener", number: int) -> None:
        self._listener = listener
        self._broker = listener.broker
        self._metrics = listener.broker.metrics
        self._settings = listener.broker.settings.kafka
        self._loop = asyncio.get_running_loop()
        self._intake = Intake(self._settings.max_request_bytes, listener.budget, listener.scratch, self._granted)
        self._number = number
        self._session: Session
        self._transport: asyncio.Transport
        self._outbox: ResponseWriter
        self._frames = self._intake.frames
        self._share = LoopShare()
        self._started: deque[InFlightRequest] = deque()  # in the order of the requests
        self._worker: asyncio.Task[None] | None = None
        self._running: InFlightRequest | None = None
        self._reading = True
        self._ended = False  # the client sends no more
        self._drain: Drain | None = None
        self._parting = False  # drained, but for what it takes to say so
        self._cut_short = False  # the long poll under way is to be answered now
        self._lingering: asyncio.TimerHandle | None = None
        self._closing = False
        self._lost = False
        self._active = self._loop.time()

    # ---- what the transport and the listener call --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        self._transport = cast(asyncio.Transport, transport)
        self._outbox = ResponseWriter(self._transport, self._listener.waiting, self._wake)
        peer = address_of(transport.get_extra_info("peername"))
        waiting = self._listener.waiting
        self._session = Session(
            id=self._number, peer=peer, listener=self._listener.name, room=waiting.room, reserve=waiting.add
        )
        _log.debug("= connected", extra=self._fields())
        if not self._listener.admit(self):
            self._refuse(Refused("too_many_connections"))

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes shall go."""
        return self._intake.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have come."""
        if self._lingering is not None:  # as if they had come after the end: not begun, so safe to send again
            return
        self._active = self._loop.time()
        try:
            self._intake.received(nbytes, self._active)
        except frames.FrameError as error:
            return self._refuse(Refused(error.reason, size=error.size))
        if self._drain is not None and self._frames:
            self._drain.came()
        self._wake()

    def eof_received(self) -> bool:
        """The client sends no more; it may still read, so it gets its answers."""
        self._ended = True
        self._intake.drop_partial()
        self._wake()
        return True

    def pause_writing(self) -> None:
        """The client does not read its answers."""
        self._outbox.pause()

    def resume_writing(self) -> None:
        """The client has read."""
        self._active = self._loop.time()
        self._outbox.resume()
        self._wake()

    @property
    def host(self) -> str:
        """The client's address, without its port."""
        return self._session.host

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone. What has been asked is done all the same, as in Kafka, except for what only reads."""
        _log.debug("= disconnected", extra=self._fields(error=exc))
        self._lost = True
        if self._lingering is not None:
            self._lingering.cancel()
        if self._drain is not None:
            self._drain.stop()
        self._outbox.close()
        self._intake.drop_partial()
        for started in list(self._started):
            if started.future is not None and started.api.reads:
                started.future.cancel()
        if self._worker is not None and self._running is not None and self._running.api.reads:
            self._worker.cancel()
        self._session.gone()
        self._listener.closed(self)
        self._wake()

    def drain(self) -> None:
        """Answer what has been received, and end when little can be on its way."""
        if self._drain is None:
            self._drain = Drain(self._loop, self._wake)
            self._wake()

    def abort(self) -> None:
        """Close at once."""
        self._closing = True
        self._intake.drop()
        self._transport.abort()

    def sweep(self, now: float, idle_seconds: float, stall_seconds: float) -> None:
        """Close the connection if its client has been silent too long.

        Silence counts while it is the client's turn: not while a handler runs, nor while we do not read for lack of
        memory. A half-sent request holds memory, so it may not rest for as long as an idle connection, nor come byte by
        byte.
        """
        silent = now - self._active
        theirs = not self._outbox.writable or not (self._started or self._frames)
        midway = self._intake.midway and (self._reading or not self._outbox.writable)
        slow = self._reading and self._intake.is_slow(now, stall_seconds)
        if (theirs and silent >= idle_seconds) or slow or ((midway or self._closing) and silent >= stall_seconds):
            if not self._closing:
                self._metrics.rejected("idle")
                _log.info("= closed for silence", extra=self._fields(seconds=round(silent, 1), midway=midway))
            self.abort()

    # ---- requests ----------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        """Do whatever has become possible: start requests, close, read or stop reading."""
        if self._worker is None and self._may_start():
            self._worker = self._loop.create_task(self._work())
        if self._drain is not None and not (self._lost or self._closing):
            self._go_on_draining(self._drain)
        if self._worker is None and not (self._frames or self._started or self._outbox):
            if self._lost:
                self._listener.forget(self)
            elif self._ended:
                self._close()
            elif self._parting:
                self._linger()
        self._steer_reading()

    def _go_on_draining(self, drain: Drain) -> None:
        running = self._running
        polling = running if running is not None and running.api.polls else None
        if polling is not None and (self._frames or self._parting) and not self._cut_short and self._worker is not None:
            self._cut_short = self._worker.cancel()
        under_way = any(started.buffers is None and started is not polling for started in self._started)
        midway = self._intake.midway
        if not (self._parting or under_way or self._frames) and (drain.late or not midway):
            self._parting = self._ended or midway or drain.may_end(self._active, self._intake.reads)
            if self._parting:
                self._intake.drop_partial()  # and nothing is read any more: the rest of it would be no request
                if drain.holding:
                    join_with_end(self._transport)
                self._flush()
                self._loop.call_soon(self._wake)

    def _may_start(self) -> bool:
        if not self._frames:
            return False
        return self._lost or (
            not self._closing and self._outbox.writable and self._in_flight() < self._settings.max_in_flight_requests
        )

    def _in_flight(self) -> int:
        if self._drain is None or not self._drain.holding:
            return len(self._started)
        return sum(started.buffers is None for started in self._started)

    async def _work(self) -> None:
        """Run the queued requests one after another."""
        ASKER.set(self._number)
        LOOP_SHARE.set(self._share)
        turns, share = self._listener.turns, self._share
        try:
            while self._may_start():
                if not turns.free(share):
                    await turns.turn(share)
                    if not self._may_start():
                        break
                await Metered(self._serve(InFlightRequest(*self._intake.next())), share)
        except asyncio.CancelledError:
            if not self._lost:  # not by connection_lost: the event loop ends
                self.abort()
                raise
        finally:
            self._worker = None
            self._wake()

    async def _serve(self, started: InFlightRequest) -> None:
        """Run one request up to its answer or its `DeferredResponse`."""
        self._started.append(started)
        self._running = started
        try:
            await self._run(started)
        except Refused as refused:
            self._finish(started, None)
            self._refuse(refused)
        except asyncio.CancelledError as error:
            if self._cut_short:
                self._cut_short = False
                if self._worker is not None:
                    self._worker.uncancel()
                return self._answer_emptily(started)
            if not cancelled_from_outside():
                return self._fail(started, error)
            self._finish(started, None)
            raise
        except Exception as error:  # noqa: BLE001 - told and logged by _fail
            self._fail(started, error)
        finally:
            self._running = None

    async def _run(self, started: InFlightRequest) -> None:
        identify(started, self._broker, self._session)
        if started.api.reads and self._lost:
            return self._finish(started, None)
        if started.api.polls and self._drain is not None and self._frames:
            return self._answer_emptily(started)
        result = await perform(started, self._broker, self._session, self._listener.large, self._intake.give_back)
        if isinstance(result, DeferredResponse):
            return self._follow(started, result.future, result.make)
        self._finish(started, await self._made(started, result) if is_long(result) else result)

    def _answer_emptily(self, started: InFlightRequest) -> None:
        """Answer a long poll that cannot go on: nothing yet, and a time to wait (KIP-219)."""
        self._finish(started, message.blank(started.api.response))

    def _follow(self, started: InFlightRequest, future: Awaitable[Any], make: Callable[[Any], Any] | None) -> None:
        started.future, started.make = asyncio.ensure_future(future), make
        started.future.add_done_callback(partial(self._later_done, started))

    def _later_done(self, started: InFlightRequest, future: asyncio.Future[Any]) -> None:
        started.future = None
        lost = self._lost and future.cancelled()
        try:
            result = None if lost else future.result()
            response = result if lost or started.make is None else started.make(result)
            if is_long(response):
                return self._follow(started, self._made(started, response), None)
            self._finish(started, response)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - told and logged by _fail
            self._fail(started, error)
        self._wake()

    # ---- answers -----------------------------------------------------------------------------------------------------

    def _fail(self, started: InFlightRequest, error: BaseException) -> None:
        """Answer with the error if the API has a place for it, else close: the client must not wait for ever."""
        if isinstance(error, KafkaError):
            response = started.api.failure(error.code, error.message, started.version)
            if response is not None:
                return self._finish(started, response)
        fields = {"api": started.api.name, "version": started.version, "correlation_id": started.correlation_id}
        if isinstance(error, KafkaError):  # foreseen, and this version can only be told by closing
            self._metrics.api(started.api.key).error(error.code)
            _log.warning("! request failed", extra=self._fields(**fields, code=error.code, error=error.message))
        else:
            _log.error("! request failed", extra=self._fields(**fields), exc_info=error)
        self._finish(started, None)
        self._close()

    def _finish(self, started: InFlightRequest, response: Any | None) -> None:
        """Give a request its answer (None: it gets none), and write what is now due."""
        if response is not None and not isinstance(response, EncodedResponse):
            response = made(started, response, pausing=self._drain is not None)
        started.buffers = ()
        if self._drain is not None:
            self._drain.answered()
        if response is not None and not self._lost:
            started.buffers = response.buffers
            for code in response.codes:
                self._metrics.api(started.api.key).error(code)
        self._flush()

    def _made(self, started: InFlightRequest, response: Any) -> Awaitable[EncodedResponse]:
        return self._broker.aside.run(made, started, response, pausing=self._drain is not None)

    def _flush(self) -> None:
        """Move answers that are due, in the order of the requests, to the socket."""
        if self._drain is not None and self._drain.holding and not (self._parting or self._lost):
            return
        now = self._active = self._loop.time()
        while self._started and self._started[0].buffers is not None:
            started = self._started.popleft()
            metrics = self._metrics.api(started.api.key)
            metrics.seconds.observe(now - started.received)
            if started.buffers:
                if self._drain is not None:
                    self._drain.asked()
                metrics.bytes_out.inc(sum(map(len, started.buffers)))
                self._outbox.put(started.buffers)
                if _log.isEnabledFor(DEBUG):
                    _log.debug("> answer", extra={"conn": self._number, "correlation_id": started.correlation_id})
            self._intake.give_back(started.size)
        self._outbox.write()

    # ---- flow control and the end ------------------------------------------------------------------------------------

    def _steer_reading(self) -> None:
        """Read exactly when there is room for what may come."""
        wanted = (
            not (self._lost or self._ended or self._closing or self._parting)
            and (self._drain is None or self._drain.reading)
            and self._outbox.writable
            and len(self._frames) + self._in_flight() < self._settings.max_in_flight_requests
            and not self._intake.is_ahead
            and self._intake.has_memory()
        )
        wanted = wanted or (self._lingering is not None and not self._closing)
        if wanted != self._reading:
            self._reading = wanted
            self._intake.begun_at = self._loop.time()
            if not (self._lost or self._ended):  # the transport reads no more by itself then
                (self._transport.resume_reading if wanted else self._transport.pause_reading)()
        self._listener.show_paused(self, not (wanted or self._lost or self._ended))

    def _granted(self) -> None:
        """The budget has room again."""
        self._active = self._loop.time()
        self._steer_reading()

    def _refuse(self, refused: Refused) -> None:
        self._metrics.rejected(refused.reason)
        _log.warning("! refused", extra=self._fields(reason=refused.reason, **refused.fields))
        self._close()

    def _close(self) -> None:
        """Close after what is written has gone out."""
        if not self._closing:
            self._closing = True
            self._intake.drop()
            self._outbox.close()
            self._transport.close()

    def _linger(self) -> None:
        """Say that nothing more comes, and close when the client has understood."""
        if self._lingering is None and not self._closing:
            self._lingering = self._loop.call_later(LINGER_SECONDS, self._close)
            self._transport.write_eof()

    def _fields(self, **fields: object) -> dict[str, object]:
        return {"conn": self._number, "peer": self._session.peer, "client": self._session.client_id[:128], **fields}
