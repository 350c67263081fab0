"""Runs the requests of one connection, one after another, and hands their responses over in the order of the requests.

A request goes from `intake` to its turn on the event loop (`loop_scheduler`), to its handler, to its place among
`in_flight`, and to the writer. There is one task for a connection, and only while there is something to run. A
handler that returns a `DeferredResponse` lets the next request start. A handler that fails unforeseen closes the
connection: a client must never wait for a response that will not come.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from logging import DEBUG
from typing import Any, Protocol, cast

from bridge import log
from bridge.api import Broker, DeferredResponse, Session
from bridge.apis import sasl_authenticate
from bridge.connection.draining import Drain
from bridge.connection.intake import Intake
from bridge.connection.parts import Refused, cancelled_from_outside
from bridge.connection.requests import LargeRequestThreads, identify, perform
from bridge.connection.responses import EncodedResponse, InFlightRequest, ResponseWriter, encode, is_long
from bridge.connection.state import ConnectionState, State
from bridge.connection.throttling import Throttle
from bridge.errors import KafkaError, Unanswered
from bridge.fairness import REQUESTER
from bridge.kafka import message
from bridge.loop_scheduler import LOOP_SHARE, LoopScheduler, LoopShare, Metered
from bridge.security.login import Stage
from bridge.security.quotas.usage import ClientQuotas
from bridge.security.sasl import Failed

_log = log.get("bridge.connection.client")


class Environment(Protocol):
    """What the connections of a listener share."""

    broker: Broker
    scheduler: LoopScheduler
    large: LargeRequestThreads
    quotas: ClientQuotas
    throttled: set[Throttle]

    def stranger_share(self, host: str) -> LoopShare:
        """What the connections of an address share of the event loop until they have logged in."""


class Connection(Protocol):
    """Whose requests they are."""

    def wake(self) -> None:
        """Something has changed: do whatever has become possible."""

    def throttled_no_more(self) -> None:
        """The client has waited for its quota."""

    def refuse(self, refused: Refused) -> None:
        """Close for what the client has sent."""

    def close(self) -> None:
        """Close after what is written has gone out."""

    def close_soon(self) -> None:
        """Let the client hang up first, for a moment."""

    def abort(self) -> None:
        """Close at once."""

    def log_fields(self, **fields: object) -> dict[str, object]:
        """These fields and those that name the connection."""


class RequestRunner:
    """The requests of one connection that have begun."""

    __slots__ = (
        "_broker",
        "_connection",
        "_cut_short",
        "_environment",
        "_intake",
        "_limit",
        "_loop",
        "_metrics",
        "_queued",
        "_quotas",
        "_running",
        "_session",
        "_share",
        "_state",
        "_turns",
        "_writer",
        "drain",
        "in_flight",
        "throttle",
        "worker",
    )

    def __init__(
        self,
        connection: Connection,
        environment: Environment,
        session: Session,
        state: ConnectionState,
        intake: Intake,
        writer: ResponseWriter,
    ) -> None:
        self.in_flight: deque[InFlightRequest] = deque()
        """In the order of the requests, from their start until their responses are with the writer."""
        self.worker: asyncio.Task[None] | None = None
        self.drain: Drain | None = None
        self._connection = connection
        self._environment = environment
        self._broker = environment.broker
        self._metrics = environment.broker.metrics
        self._limit = state.most_in_flight(environment.broker.settings.kafka.max_in_flight_requests)
        self._session = session
        self._state = state
        self._intake = intake
        self._writer = writer
        self._loop = asyncio.get_running_loop()
        self._share = LoopShare()
        self._turns = self._share if session.login is None else environment.stranger_share(session.host[1:])
        self._quotas = environment.quotas
        self.throttle = Throttle(
            environment.quotas, environment.throttled, session, self._share, connection.throttled_no_more
        )
        session.mutations = self.throttle
        self._running: InFlightRequest | None = None
        self._queued = False  # for its turn, without a worker
        self._cut_short = False  # the long poll that runs is to be answered now

    @property
    def unanswered(self) -> int:
        """Requests that count as in flight: where responses are held, not those that only wait for the end."""
        if self._state.holds:
            return sum(request.response is None for request in self.in_flight)
        return len(self.in_flight)

    @property
    def idle(self) -> bool:
        """Whether no request runs or is in flight."""
        return self.worker is None and not self.in_flight

    @property
    def only_polls(self) -> bool:
        """Whether everything is answered but perhaps the long poll that runs."""
        running = self._running
        polling = running if running is not None and running.api.long_poll else None
        return not any(request.response is None and request is not polling for request in self.in_flight)

    def admit(self, limit: int) -> None:
        """So many requests may be in flight from now on: the client has logged in."""
        self._limit = limit
        self._turns = self._share

    def start(self) -> None:
        """Run what is received, if it may be."""
        if self.worker is None and not self._queued and self._may_start():
            scheduler = self._environment.scheduler
            if scheduler.is_busy:
                self._queued = True
                scheduler.call_in_turn(self._turns, self._start_in_turn)
            else:
                self.worker = self._loop.create_task(self._work())

    def cut_poll_short(self) -> None:
        """Answer the long poll that runs, if one does: others wait behind it, or the end."""
        running = self._running
        if running is not None and running.api.long_poll and not self._cut_short and self.worker is not None:
            self._cut_short = self.worker.cancel()

    def cancel_reads(self) -> None:
        """Give up what changes nothing: the client that asked for it is gone. All else goes on, as in Kafka."""
        for request in list(self.in_flight):
            if request.future is not None and request.api.read_only:
                request.future.cancel()
        if self.worker is not None and self._running is not None and self._running.api.read_only:
            self.worker.cancel()

    def flush(self) -> None:
        """Hand over the responses that are due, in the order of the requests."""
        if self._state.holds:
            return
        now = self._loop.time()
        self._writer.written_at = now
        while self.in_flight and self.in_flight[0].response is not None:
            request = self.in_flight.popleft()
            metrics = self._metrics.api(request.api.key)
            metrics.seconds.observe(now - request.received)
            if request.response:
                if self.drain is not None:
                    self.drain.asked()
                size = sum(map(len, request.response))
                metrics.bytes_out.inc(size)
                self._session.traffic.bytes_out += size
                self._writer.put(request.response)
                if _log.isEnabledFor(DEBUG):
                    _log.debug("> response", extra={"conn": self._session.id, "correlation_id": request.correlation_id})
            self._intake.release(request.size)
        self._writer.write()

    def _start_in_turn(self) -> None:
        self._queued = False
        if self._may_start():
            self.worker = self._loop.create_task(self._work())
        else:
            self._connection.wake()

    # ---- one request after another -----------------------------------------------------------------------------------

    def _may_start(self) -> bool:
        return bool(self._intake.frames) and self._state.may_start(self._writer.writable, self.unanswered, self._limit)

    async def _work(self) -> None:
        """Run the received requests one after another."""
        REQUESTER.set(self._session.id)
        scheduler = self._environment.scheduler
        try:
            while self._may_start():
                share = self._turns
                LOOP_SHARE.set(share)
                if not scheduler.may_run(share):
                    await scheduler.wait_turn(share)
                    if not self._may_start():
                        break
                await Metered(self._serve(InFlightRequest(*self._intake.next())), share)
        except asyncio.CancelledError:
            if not self._state.lost:  # not by cancel_reads: the event loop ends
                self._connection.abort()
                raise
        finally:
            self.worker = None
            self._connection.wake()

    async def _serve(self, request: InFlightRequest) -> None:
        """Run one request up to its response or its `DeferredResponse`."""
        self.in_flight.append(request)
        self._running = request
        try:
            await self._run(request)
        except Refused as refused:
            self._finish(request, None)
            self._connection.refuse(refused)
        except asyncio.CancelledError as error:
            if self._cut_short:
                self._cut_short = False
                if self.worker is not None:
                    self.worker.uncancel()
                return self._answer_emptily(request)
            if not cancelled_from_outside():
                return self._fail(request, error)
            self._finish(request, None)
            raise
        except Exception as error:  # noqa: BLE001 - answered and logged by _fail
            self._fail(request, error)
        finally:
            self._running = None

    async def _run(self, request: InFlightRequest) -> None:
        login = self._session.login
        if login is not None and login.takes_bytes:
            return await self._run_login_bytes(request)
        identify(request, self._broker, self._session)
        if request.api.read_only and self._state.lost:
            return self._finish(request, None)
        if request.api.long_poll and self._state.draining and self._intake.frames:
            return self._answer_emptily(request)
        if self._quotas.active and self._state.state is not State.AUTHENTICATING:
            refusal = self.throttle.begin(request)
            if refusal is not None:
                return self._finish(request, refusal)
        result = await perform(request, self._broker, self._session, self._environment.large, self._intake.release)
        if isinstance(result, DeferredResponse):
            return self._follow(request, result.future, result.make)
        self._finish(request, await self._encode_in_thread(request, result) if is_long(result) else result)
        if login is not None and login.stage is Stage.REFUSED:
            self._connection.close_soon()

    async def _run_login_bytes(self, request: InFlightRequest) -> None:
        """The mechanism's bytes without a header, after a SaslHandshake of v0 (KIP-43): answered in the same way."""
        data, request.body = bytes(cast(memoryview, request.body)), None
        request.api = sasl_authenticate.API
        step = await sasl_authenticate.exchanged(data, self._broker, self._session)
        if isinstance(step, Failed):  # there is no place for an error
            self._finish(request, None)
            return self._connection.close()
        self._finish(request, EncodedResponse([len(step.data).to_bytes(4, "big") + step.data], ()))

    def _follow(self, request: InFlightRequest, future: Awaitable[Any], make: Callable[[Any], Any] | None) -> None:
        request.future, request.make = asyncio.ensure_future(future), make
        request.future.add_done_callback(partial(self._deferred_done, request))

    def _deferred_done(self, request: InFlightRequest, future: asyncio.Future[Any]) -> None:
        request.future = None
        lost = self._state.lost and future.cancelled()
        try:
            result = None if lost else future.result()
            response = result if lost or request.make is None else request.make(result)
            if is_long(response):
                return self._follow(request, self._encode_in_thread(request, response), None)
            self._finish(request, response)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - answered and logged by _fail
            self._fail(request, error)
        self._connection.wake()

    # ---- responses ---------------------------------------------------------------------------------------------------

    def _answer_emptily(self, request: InFlightRequest) -> None:
        """Answer a long poll that cannot go on: nothing yet, and a time to wait (KIP-219)."""
        self._finish(request, message.with_defaults(request.api.response))

    def _fail(self, request: InFlightRequest, error: BaseException) -> None:
        """Answer with the error if the API has a place for it, else close."""
        if isinstance(error, KafkaError) and not isinstance(error, Unanswered):
            response = request.api.failure(error.code, error.message, request.version)
            if response is not None:
                return self._finish(request, response)
        fields = self._connection.log_fields(
            api=request.api.name, version=request.version, correlation_id=request.correlation_id
        )
        if isinstance(error, KafkaError):  # foreseen, but this version, or this client, has no place for it
            self._metrics.api(request.api.key).error(error.code)
            self._session.traffic.errors += 1
            _log.warning("! request failed", extra={**fields, "code": error.code, "error": error.message})
        else:
            _log.error("! request failed", extra=fields, exc_info=error)
        self._finish(request, None)
        self._connection.close()

    def _finish(self, request: InFlightRequest, response: Any | None) -> None:
        """Answer a request, with nothing where the response is None, and hand over what is now due."""
        if response is not None and not isinstance(response, EncodedResponse):
            response = encode(request, self._throttled(request, response), pausing=self._state.draining)
        request.response = ()
        if self.drain is not None:
            self.drain.answered()
        if response is not None and not self._state.lost:
            request.response = response.buffers
            for code in response.codes:
                self._metrics.api(request.api.key).error(code)
                self._session.traffic.errors += 1
        self.flush()

    def _throttled(self, request: InFlightRequest, response: Any) -> Any:
        """The response that is sent instead, where the client's quotas ask for that."""
        return self.throttle.answered(request, response) if self._quotas.active else response

    def _encode_in_thread(self, request: InFlightRequest, response: Any) -> Awaitable[EncodedResponse]:
        response = self._throttled(request, response)
        return self._broker.cpu_thread.run(encode, request, response, pausing=self._state.draining)
