"""Runs the requests of one connection, one after another, and hands their responses over in the order of the requests.

A request goes from `intake` to its turn on the event loop (`scheduler`), to its handler, to its place among
`in_flight`, and to the writer. What has nothing to wait for is done at once (`straight`, `Api.at_once`). All else has a
task, one at a time for a connection. A handler that returns a `DeferredResponse` lets the next request start. A handler
that fails unforeseen closes the connection: a client must never wait for a response that will not come.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from functools import partial
from logging import DEBUG
from typing import Any, cast

from bridge.apis import produce, sasl_authenticate
from bridge.connection.draining import Drain
from bridge.connection.environment import Connection, Environment
from bridge.connection.intake import Intake, is_produce
from bridge.connection.parts import Refused, cancelled_from_outside
from bridge.connection.request_state import FOLLOWS, RequestStage, UnexpectedStage
from bridge.connection.requests import NOT_YET, identify, perform, release_memory, start
from bridge.connection.responses import Answered, EncodedResponse, InFlightRequest, ResponseWriter, encode, is_long
from bridge.connection.state import ConnectionState, State
from bridge.connection.straight import StraightRequest, StraightWay
from bridge.connection.throttling import Throttle
from bridge.errors import KafkaError, Unanswered
from bridge.kafka import message
from bridge.requests.responses import DeferredResponse, LongPoll
from bridge.requests.session import Session
from bridge.runtime.futures import call_when_done
from bridge.runtime.scheduler import REQUESTER, LoopShare, Metered, begin
from bridge.security.sasl.login import Stage
from bridge.security.sasl.mechanism import Failed
from bridge.telemetry import log

_log = log.get("bridge.connection.client")


class RequestRunner:
    """The requests of one connection that have begun."""

    __slots__ = (
        "_broker", "_connection", "_current", "_environment", "_intake", "_limit", "_loop", "_metrics", "_quotas",
        "_session", "_share", "_stage", "_state", "_straight", "_turns", "_writer", "drain", "in_flight",
        "throttle", "worker",
    )  # fmt: skip

    def __init__(
        self,
        connection: Connection,
        environment: Environment,
        session: Session,
        state: ConnectionState,
        intake: Intake,
        writer: ResponseWriter,
    ) -> None:
        self.in_flight: deque[InFlightRequest | StraightRequest] = deque()
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
        self._straight = StraightWay.of(self._broker, session)
        self._stage = RequestStage.IDLE
        self._current: InFlightRequest | StraightRequest | None = None  # of that stage; none is while idle and queued

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
        current = self._current
        poll = current if current is not None and current.api.long_poll else None
        return not any(request.response is None and request is not poll for request in self.in_flight)

    def admit(self, limit: int) -> None:
        """So many requests may be in flight from now on: the client has logged in."""
        self._limit = limit
        self._turns = self._share

    def start(self) -> None:
        """Run what is received, if it may be."""
        if self._stage is RequestStage.IDLE and self._may_start():
            if self._environment.scheduler.may_run(self._turns):
                self._serve_on()
            else:
                self._queue()

    def cut_poll_short(self) -> None:
        """Answer the long poll that runs, if one does: others wait behind it, or the end."""
        poll = self._current
        if poll is None or not poll.api.long_poll or poll.cut_short:
            return
        if self._stage is RequestStage.RUNNING and self.worker is not None:
            poll.cut_short = self.worker.cancel()
        elif self._stage in (RequestStage.SCHEDULED, RequestStage.POLLING):
            poll.cut_short = True
            self._cancel_soon(poll)

    def cancel_reads(self) -> None:
        """Give up what changes nothing: the client that asked for it is gone. All else goes on, as in Kafka."""
        current = self._current
        for request in list(self.in_flight):
            if request is current and self._stage is RequestStage.POLLING:
                self._cancel_soon(request)
            elif request.api.read_only:
                request.cancel()
        if (
            self._stage is RequestStage.RUNNING
            and self.worker is not None
            and current is not None
            and current.api.read_only
        ):
            self.worker.cancel()

    def flush(self) -> None:
        """Hand over the responses that are due, in the order of the requests."""
        if self._state.holds:
            return
        now, is_debugged = self._loop.time(), _log.isEnabledFor(DEBUG)
        self._writer.written_at = now
        while self.in_flight and self.in_flight[0].response is not None:
            request = self.in_flight.popleft()
            metrics = self._metrics.api(request.api.key)
            metrics.seconds.observe(now - request.received)
            if request.response:
                if self.drain is not None:
                    self.drain.asked()
                size = sum(map(len, request.response))
                metrics.bytes_out.value += size
                self._session.traffic.bytes_out += size
                self._writer.put(request.response)
                if is_debugged:
                    _log.debug("> response", extra={"conn": self._session.id, "correlation_id": request.correlation_id})
            self._intake.release(request.size)
        self._writer.write()

    def _cancel_soon(self, poll: InFlightRequest | StraightRequest) -> None:
        """Not now: what follows may be the end of the connection, in the midst of its work."""
        self._loop.call_soon(poll.cancel)

    def _queue(self) -> None:
        self._move(RequestStage.QUEUED)
        self._environment.scheduler.call_in_turn(
            self._turns, self._in_turn, appends=is_produce(self._intake.frames[0][0])
        )

    def _in_turn(self) -> None:
        self._move(RequestStage.IDLE)
        if self._may_start():
            self._environment.scheduler.serve(self._turns)
            self._serve_on()
        self._connection.progressed()

    def _move(self, stage: RequestStage, current: InFlightRequest | StraightRequest | None = None) -> None:
        if stage not in FOLLOWS[self._stage]:
            raise UnexpectedStage(f"from {self._stage.name} to {stage.name}")
        self._stage, self._current = stage, current

    # ---- one request after another -----------------------------------------------------------------------------------

    def _may_start(self) -> bool:
        if not self._intake.frames:
            return False
        state = self._state
        unanswered = self.unanswered if state.holds else len(self.in_flight)
        return state.may_start(self._writer.writable, unanswered, self._limit)

    def _serve_on(self) -> None:
        """Run the received requests one after another, up to the first that has to wait for something."""
        while True:
            share = self._turns
            REQUESTER.set(share)
            begin(share)
            frame, received = self._intake.next()
            try:
                request = self._serve(frame, received)
            finally:
                self._environment.scheduler.count(share, appends=is_produce(frame))
            if request is not None:
                self._schedule(request)
            if self._stage is not RequestStage.IDLE or not self._may_start():
                return
            if not self._environment.scheduler.may_run(self._turns):
                return self._queue()

    def _serve(self, frame: memoryview, received: float) -> InFlightRequest | None:
        """Run one request, if it has nothing to wait for; else it is returned, and has its place."""
        straight = self._straight_way(received)
        if straight is None:
            return self._serve_generally(InFlightRequest(frame, received))
        try:
            taken = straight.take(frame, received, self)
        except Exception as error:  # noqa: BLE001 - as of a handler that fails unforeseen
            _log.error("! request failed", extra=self._connection.log_fields(), exc_info=error)
            request = InFlightRequest(frame, received)
            self.in_flight.append(request)
            self._finish(request, None)
            self._connection.close()
            return None
        return None if taken else self._serve_generally(InFlightRequest(frame, received))

    def _straight_way(self, received: float) -> StraightWay | None:
        """What may be done with a request at once; None where more is to be done than that."""
        login = self._session.login
        is_free = self._state.state is State.OPEN and not self._quotas.active
        if not is_free or (login is not None and login.refusal(produce.API.key, received) is not None):
            return None
        return self._straight

    def _serve_generally(self, request: InFlightRequest) -> InFlightRequest | None:
        return None if self._serve_in_place(request) else request

    def _schedule(self, request: InFlightRequest) -> None:
        self._move(RequestStage.SCHEDULED, request)
        self.worker = self._loop.create_task(self._work(request))

    def _serve_in_place(self, request: InFlightRequest) -> bool:
        """Run one request, if it has nothing to wait for."""
        self.in_flight.append(request)
        self._move(RequestStage.IN_PLACE, request)
        try:
            if not self._may_begin() or (result := self._begin(request)) is NOT_YET:
                return False
            self._take(request, result)
        except Refused as refused:
            self._refuse(request, refused)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - answered and logged by _fail
            self._fail(request, error)
        if self._stage is RequestStage.IN_PLACE:
            self._move(RequestStage.IDLE)
        return True

    async def _work(self, request: InFlightRequest) -> None:
        """Run a request that has something to wait for."""
        try:
            await Metered(self._serve_waiting(request), self._turns)
        except asyncio.CancelledError:
            if not self._state.lost:  # not by cancel_reads: the event loop ends
                self._connection.abort()
                raise
        finally:
            self.worker = None
            if self._stage is RequestStage.RUNNING:
                self._move(RequestStage.IDLE)
            self._connection.progressed()

    async def _serve_waiting(self, request: InFlightRequest) -> None:
        """Run one request up to its response or its `DeferredResponse`."""
        self._move(RequestStage.RUNNING, request)
        try:
            if request.cut_short or (request.api.read_only and self._state.lost):
                return self._give_up(request)
            await self._run(request)
        except Refused as refused:
            self._refuse(request, refused)
        except asyncio.CancelledError as error:
            if request.cut_short:
                if self.worker is not None:
                    self.worker.uncancel()
                return self._answer_emptily(request)
            if not cancelled_from_outside():
                return self._fail(request, error)
            self._finish(request, None)
            raise
        except Exception as error:  # noqa: BLE001 - answered and logged by _fail
            self._fail(request, error)

    def _give_up(self, request: InFlightRequest) -> None:
        """It is cut short, or its client is gone, before its task has begun."""
        if request.rest is not None:
            request.rest.close()
        if request.cut_short:
            self._answer_emptily(request)
        else:
            self._finish(request, None)

    def _may_begin(self) -> bool:
        """Whether a request begins before it has a task."""
        login = self._session.login
        return login is None or not login.takes_bytes

    def _begin(self, request: InFlightRequest) -> Any:
        """Read the header. The result of the request where it has nothing to wait for, else NOT_YET."""
        identify(request, self._broker, self._session)
        request.begun = True
        if request.api.read_only and self._state.lost:
            return None
        if request.api.long_poll and self._state.draining and self._intake.frames:
            return _nothing_yet(request)
        if self._quotas.active and self._state.state is not State.AUTHENTICATING:
            refusal = self.throttle.begin(request)
            if refusal is not None:
                return refusal
        return start(request, self._broker, self._session)

    async def _run(self, request: InFlightRequest) -> None:
        login = self._session.login
        if not request.begun:
            if login is not None and login.takes_bytes:
                return await self._run_login_bytes(request)
            result = self._begin(request)
            if result is not NOT_YET:
                return self._take(request, result)
        result = await perform(request, self._broker, self._session, self._environment.large, self._intake.release)
        if not isinstance(result, DeferredResponse) and is_long(result):
            result = await self._encode_in_thread(request, result)
        self._take(request, result)
        if login is not None and login.stage is Stage.REFUSED:
            self._connection.close_soon()

    def _take(self, request: InFlightRequest, result: Any) -> None:
        """What a handler has returned."""
        if isinstance(result, DeferredResponse):
            polls = isinstance(result, LongPoll)
            if polls:
                release_memory(request, self._intake.release)
            future = self._follow(request, result.future, result.make)
            if polls and not future.done():
                self._move(RequestStage.POLLING, request)
        elif is_long(result):
            self._follow(request, self._encode_in_thread(request, result), None)
        else:
            self._finish(request, result)

    async def _run_login_bytes(self, request: InFlightRequest) -> None:
        """The mechanism's bytes without a header, after a SaslHandshake of v0 (KIP-43): answered in the same way."""
        data, request.body = bytes(cast(memoryview, request.body)), None
        request.api = sasl_authenticate.API
        step = await sasl_authenticate.exchanged(data, self._broker, self._session)
        if isinstance(step, Failed):  # there is no place for an error
            self._finish(request, None)
            return self._connection.close()
        self._finish(request, EncodedResponse([len(step.data).to_bytes(4, "big") + step.data], ()))

    def _follow(
        self, request: InFlightRequest, work: Awaitable[Any], make: Callable[[Any], Any] | None
    ) -> "asyncio.Future[Any]":
        future = asyncio.ensure_future(work)
        request.future, request.make = future, make
        call_when_done(future, partial(self._deferred_done, request))
        return future

    def _deferred_done(self, request: InFlightRequest, future: asyncio.Future[Any]) -> None:
        request.future = None
        lost, cut_short = self._state.lost and future.cancelled(), request.cut_short and future.cancelled()
        if self._stage is RequestStage.POLLING and request is self._current:
            self._move(RequestStage.IDLE)
        try:
            result = None if lost else _nothing_yet(request) if cut_short else future.result()
            response = result if lost or cut_short or request.make is None else request.make(result)
            if is_long(response):
                context = copy_context()  # what has called may run for another connection
                context.run(REQUESTER.set, self._turns)
                context.run(self._follow, request, self._encode_in_thread(request, response), None)
                return
            self._finish(request, response)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - answered and logged by _fail
            self._fail(request, error)
        self._go_on()

    def _go_on(self) -> None:
        """A request is answered that had let others begin."""
        if self._intake.frames:  # not now: this may be called in the midst of what the next request needs
            self._loop.call_soon(self._connection.progressed)
        else:
            self._connection.progressed()

    # ---- the straight way --------------------------------------------------------------------------------------------

    def poll(self, request: StraightRequest) -> None:
        """It waits: the connection's next request begins when it is answered."""
        self._move(RequestStage.IN_PLACE, request)
        self._move(RequestStage.POLLING, request)
        size, request.size = request.size, 0
        self._intake.release(size)

    def go_general(self, request: StraightRequest, frame: memoryview) -> None:
        """Serve this request in the place of one that waits, the general way."""
        if request.cut_short:
            return self.answer(request, partial(self.nothing_yet, request))
        self._move(RequestStage.IDLE)
        self.in_flight.pop()  # it is the last: the next one waits for it
        general = InFlightRequest(frame, request.received)
        general.size = 0  # the budget does not count it any more
        if not self._serve_in_place(general):
            self._schedule(general)
        self._go_on()

    def nothing_yet(self, request: StraightRequest) -> Any:
        """What it is answered when it is cut short, or its client is gone."""
        return _nothing_yet(request) if request.cut_short else None

    def _poll_ends(self, request: StraightRequest) -> None:
        if self._stage is RequestStage.POLLING and request is self._current:
            self._move(RequestStage.IDLE)

    def answer_bytes(self, request: StraightRequest, answer: bytes) -> bool:
        """Answer with these bytes; False, and nothing done, where more is to be told."""
        if self._state.state is not State.OPEN or self._quotas.active:
            return False
        self._poll_ends(request)
        request.response = (answer,)
        self.flush()
        self._go_on()
        return True

    def answer(self, request: StraightRequest, make: Callable[[], Any]) -> None:
        """Answer with the response that is made; what that raises closes the connection."""
        self._poll_ends(request)
        try:
            self._finish(request, make())
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - answered and logged by _fail
            self._fail(request, error)
        self._go_on()

    # ---- responses ---------------------------------------------------------------------------------------------------

    def _answer_emptily(self, request: InFlightRequest) -> None:
        """Answer a long poll that cannot go on."""
        self._finish(request, _nothing_yet(request))

    def _refuse(self, request: InFlightRequest, refused: Refused) -> None:
        self._finish(request, None)
        self._connection.refuse(refused)

    def _fail(self, request: InFlightRequest | StraightRequest, error: BaseException) -> None:
        """Answer with the error if the API has a place for it, else close."""
        if isinstance(error, KafkaError) and not isinstance(error, Unanswered):
            response = request.api.failure(None, error.code, error.message, request.version)
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

    def _finish(self, request: InFlightRequest | StraightRequest, response: Any | None) -> None:
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

    def _throttled(self, request: InFlightRequest | StraightRequest, response: Any) -> Any:
        """The response that is sent instead, where the client's quotas ask for that."""
        return self.throttle.answered(request, response) if self._quotas.active else response

    def _encode_in_thread(self, request: InFlightRequest, response: Any) -> Awaitable[EncodedResponse]:
        response = self._throttled(request, response)
        return self._broker.cpu_thread.run(encode, request, response, pausing=self._state.draining)


def _nothing_yet(request: Answered) -> Any:
    """No records, and a time to wait (KIP-219)."""
    return message.with_defaults(request.api.response)
