"""What producers, consumers and watches have in common: they reconnect.

    detached ──attempt──▶ attached ──connection lost / closed by the broker──▶ detached
       │ └─ transient error: back off, look up again, try again
       └─ permanent error or close() ─▶ failed

One task runs while detached, none while attached.
"""

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from logging import DEBUG, INFO, WARNING
from typing import Final

from bridge.pulsar.connection.broker_connection import BrokerConnection
from bridge.pulsar.connection.context import ClientContext
from bridge.pulsar.connection.pool import BrokerAway
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import ClientClosed, ConnectionLost, PulsarError
from bridge.telemetry import log

_FIRST_DELAY_SECONDS: Final = 0.05
MAX_DELAY_SECONDS: Final = 5.0
# After an attachment, however short: there is a broker that works.
_MAX_DELAY_AFTER_SUCCESS_SECONDS: Final = 1.0
# After so long an attachment delays start over; sooner, it is probably the same error again.
_STABLE_AFTER_SECONDS: Final = 5.0
# Another client has the name. The broker does not tell when it is free, so we ask often.
_BUSY: Final = (pb.ProducerBusy, pb.ConsumerBusy)

_log = log.get(__name__)


class Backoff:
    """Delays that double from 50 ms to 5 s or less, each with jitter, so that not all come back at once."""

    def __init__(self, most: float = MAX_DELAY_SECONDS) -> None:
        self._delay = _FIRST_DELAY_SECONDS
        self._most = most

    def next(self) -> float:
        """How long to wait now, in seconds."""
        delay = self._delay
        self._delay = min(2 * delay, self._most)
        return _jittered(delay)


def _is_held(error: PulsarError) -> bool:
    """Whether another client has the name; the same codes say that there may be no more producers or consumers."""
    return error.code in _BUSY and error.refusal is None


def _jittered(delay: float) -> float:
    return delay * random.uniform(0.5, 1.0)  # noqa: S311 - no secret


class ReconnectingHandler(ABC):
    """See the module. Subclasses say how to get to a connection and what to do there."""

    def __init__(self, kind: str, topic: str, context: ClientContext) -> None:
        self.topic = topic
        self.closed = False
        self.terminated: asyncio.Future[PulsarError] = asyncio.get_running_loop().create_future()
        """Done when the broker will never have this one (back), or it was closed: the error is why."""
        self._connection: BrokerConnection | None = None
        self._context = context
        self._pool = context.pool
        self._metrics = context.metrics
        self._timeout = context.settings.operation_timeout_seconds
        self._loop = asyncio.get_running_loop()
        self._log = _log.bind(kind=kind, topic=topic)
        self._attempt: asyncio.Task[None] | None = None
        self._failure: PulsarError | None = None
        self.on_attachment: Callable[[bool], None] | None = None
        """Called with True when the broker has accepted this one, with False when the connection is lost."""
        self.last_error: PulsarError | None = None
        """Why the last attempt failed, while detached."""
        self._was_attached = False
        self._attached_at = 0.0
        self._backoff = Backoff(context.most_delay)
        self._waiting: set[asyncio.Future[BrokerConnection]] = set()

    @property
    def attached(self) -> bool:
        """Whether the broker has accepted this one, and no connection was lost since."""
        return self._connection is not None

    async def opened(self) -> None:
        """Wait until the broker has accepted this one; raises why it never will."""
        await self._ready()

    @abstractmethod
    async def _attach(self) -> BrokerConnection:
        """Find a connection and settle there. Must leave nothing behind when it raises."""

    @abstractmethod
    def _is_open_on(self, connection: BrokerConnection) -> bool:
        """Whether the broker has not closed us there since `_attach`."""

    @abstractmethod
    def _attached(self, connection: BrokerConnection) -> None:
        """Everything may be sent on this connection from now on."""

    @abstractmethod
    def _failed(self, error: PulsarError) -> None:
        """It is over: the error is why."""

    def _gives_up(self, error: PulsarError, elapsed: float) -> bool:
        """Whether an attempt's error is final, so long after the first attempt."""
        if self._was_attached and (error.code == pb.AuthenticationError or error.code in _BUSY):
            return False  # a new token may come, an old session of ours end
        if _is_held(error) or error.code == pb.AuthenticationError:
            # An old session of ours, which the broker is about to end, or another client, permanently. The client has
            # been logged in before: its token has ended, and the next one is late.
            return elapsed > self._timeout
        return not error.retriable

    def _start(self, delay: float = 0) -> None:
        if self._attempt is None and self._failure is None and not self.closed:
            self._attempt = self._loop.create_task(self._keep_trying(delay), name=f"attach {self.topic}")
            self._attempt.add_done_callback(self._attempt_done)

    async def _keep_trying(self, delay: float) -> None:
        started = self._loop.time()
        if delay:
            await self._pool.pause(delay)
        while True:
            try:
                connection = await self._attach()
                if not connection.closed and self._is_open_on(connection):
                    break
                error: PulsarError = ConnectionLost("closed as soon as opened")
            except PulsarError as refused:
                if self._gives_up(refused, self._loop.time() - started):
                    # to ask whether a topic is free is no fault, and is done often
                    asks = refused.code == pb.ProducerFenced and not self._was_attached
                    self._log.log(DEBUG if asks else WARNING, "! pulsar refused", extra={"reason": str(refused)})
                    self._fail(refused)
                    return
                error = refused
            self._tell(error)
            if not _is_held(error):
                self._pool.attempt_failed()
            delay = _jittered(_FIRST_DELAY_SECONDS) if _is_held(error) else self._backoff.next()
            if await self._pool.pause(delay, error):
                self._backoff = Backoff(self._context.most_delay)
        self._attempt = None
        self._pool.attempt_succeeded()
        self._set_attached(connection)

    def _tell(self, error: PulsarError) -> None:
        # a busy name is asked for twenty times a second: once is news
        is_news = self.last_error is None or self.last_error.code != error.code
        self.last_error = error
        # that a broker is away is told once for all, and what happens to thousands at once by a few of them
        fields = self._pool.next_line(error) if is_news and not isinstance(error, BrokerAway) else None
        level = DEBUG if fields is None else INFO
        self._log.log(level, "! pulsar not attached", extra={"reason": str(error), **(fields or {})})

    def _attempt_done(self, task: "asyncio.Task[None]") -> None:
        if self._attempt is task:
            self._attempt = None
        if not task.cancelled() and (bug := task.exception()) is not None:
            self._log.error("! pulsar attachment broke", exc_info=bug)
            self._fail(PulsarError(pb.UnknownError, repr(bug)))

    def _set_attached(self, connection: BrokerConnection) -> None:
        if self._was_attached:
            self._metrics.reconnects.inc()
        self._was_attached = True
        self.last_error = None
        self._attached_at = self._loop.time()
        self._connection = connection
        self._log.debug("= pulsar attached", extra={"broker": str(connection.address)})
        self._attached(connection)
        if self.on_attachment is not None:
            self.on_attachment(True)
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(connection)
        self._waiting.clear()

    def detached(self, connection: BrokerConnection) -> None:
        """The connection tells that it is lost, or that the broker closed us there."""
        if connection is self._connection:
            self._detach()

    def _detach(self, *, at_once: bool = False) -> None:
        """Leave the connection, to come back by a fresh lookup; not at once if we only just came."""
        was_attached, self._connection = self._connection is not None, None
        if was_attached and self.on_attachment is not None:
            self.on_attachment(False)
        if at_once:
            self._start()
        elif self._loop.time() - self._attached_at > _STABLE_AFTER_SECONDS:
            self._backoff = Backoff(self._context.most_delay)
            self._start()
        else:
            self._start(min(self._backoff.next(), _MAX_DELAY_AFTER_SUCCESS_SECONDS))

    def _fail(self, error: PulsarError) -> None:
        if self._failure is not None:
            return
        self._failure = error
        self._failed(error)
        if not self.terminated.done():
            self.terminated.set_result(error)
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(error)
        self._waiting.clear()

    async def _ready(self) -> BrokerConnection:
        """The connection, once attached; raises what `_failed` was told."""
        if self._failure is not None:
            raise self._failure
        if self._connection is not None:
            return self._connection
        waiting: asyncio.Future[BrokerConnection] = self._loop.create_future()
        self._waiting.add(waiting)
        try:
            return await waiting
        finally:
            self._waiting.discard(waiting)

    async def _stop(self, what: str) -> BrokerConnection | None:
        """Mark as closed, stop trying; the connection that is left to say good-bye on."""
        self.closed = True
        if self._attempt is not None:
            self._attempt.cancel()
            await asyncio.gather(self._attempt, return_exceptions=True)
        connection, self._connection = self._connection, None
        self._fail(ClientClosed(what))
        return connection if connection is not None and not connection.closed else None
