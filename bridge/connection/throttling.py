"""Holds a connection to its client's quotas: counts what is done, says how long to wait, and reads no more until then.

As Kafka does since KIP-219: the response goes out at once with `throttle_time_ms`, and its connection is not read for
that time. A request that is partly received is received to its end, and what was received is done: it would take memory
else, for as long as a client likes. All of it counts, so the wait is longer by that.
"""

import asyncio
import math
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final

from bridge.apis import fetch, produce, share_fetch
from bridge.connection.responses import Answered, InFlightRequest
from bridge.errors import KafkaError
from bridge.kafka import message
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.encoded import EncodedBody
from bridge.requests.session import Session
from bridge.runtime.scheduler import LoopShare
from bridge.security.quotas.entities import QuotaKey
from bridge.security.quotas.usage import REQUEST_DELAY_SECONDS, ClientQuotas

_LEAST_SECONDS: Final = 0.001
"""Shorter waits are left to the next request: what is owed stays."""
_LONGEST_MS: Final = 2**31 - 1
_LABELS: Final = {
    QuotaKey.PRODUCE: "produce",
    QuotaKey.FETCH: "fetch",
    QuotaKey.REQUEST: "request",
    QuotaKey.MUTATION: "controller_mutation",
}


class Throttle:
    """How one connection is held to its client's quotas."""

    __slots__ = (
        "_changed",
        "_for",
        "_loop",
        "_mutation_delay",
        "_others",
        "_quotas",
        "_session",
        "_share",
        "_spent",
        "_stopped",
        "_timer",
        "muted",
        "until",
    )

    def __init__(
        self,
        quotas: ClientQuotas,
        others: "set[Throttle]",
        session: Session,
        share: LoopShare,
        changed: Callable[[], None],
    ) -> None:
        """`others`: those of all connections that are muted; `changed` is called when this one no longer is."""
        self.muted = False
        """Whether no more is to be read."""
        self.until = 0.0
        """When it is, until when, as the event loop tells time."""
        self._quotas = quotas
        self._others = others
        self._session = session
        self._share = share
        self._spent = share.spent
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._for: set[QuotaKey] = set()
        self._mutation_delay = 0.0
        self._stopped = False

    # ---- requests ----------------------------------------------------------------------------------------------------

    def begin(self, request: InFlightRequest) -> Any | None:
        """A request is about to be handled; the response, if it is not to be."""
        key = request.api.key
        if key == produce.API.key:
            user, client_id = self._client
            count = request.size + 4
            self._wait(QuotaKey.PRODUCE, self._quotas.take_bytes(QuotaKey.PRODUCE, user, client_id, count, self._now))
        elif key == fetch.API.key:
            user, client_id = self._client
            now = self._now
            if self._wait(QuotaKey.FETCH, self._quotas.delay(QuotaKey.FETCH, user, client_id, now)):
                return message.with_defaults(request.api.response)
            self._session.fetch_bytes = self._quotas.fetch_bytes(user, client_id, now)
        return None

    def answered(self, request: Answered, response: Any) -> Any:
        """A request has this response; the one to send."""
        self._count_time()
        if request.api.key == fetch.API.key:
            response = self._fetched(request, response)
        elif request.api.key == share_fetch.API.key:  # what it has acknowledged is stored: the answer goes out
            self._take_fetched(_size(response))
        if self._mutation_delay:
            self._wait(QuotaKey.MUTATION, self._mutation_delay)
            self._mutation_delay = 0.0
        if self.muted:
            left = min(math.ceil((self.until - self._now) * 1000), _LONGEST_MS)
            if left > 0:
                response = _told(request, response, left)
        return response

    def count(self, partitions: int, *, strict: bool, waits: bool = True) -> None:
        """So many partitions are to be created or deleted; THROTTLING_QUOTA_EXCEEDED where that is refused (KIP-599).

        `strict`: the client's version knows that error. `waits`: whether the client waits, too.
        """
        done, delay = self._quotas.mutate(*self._client, partitions, self._now, strict=strict)
        if waits:
            self._mutation_delay = max(self._mutation_delay, delay)
        if not done:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")

    def _count_time(self) -> None:
        """Since the last response: on the event loop, and in threads."""
        share = self._share
        spent = share.spent + (perf_counter() - share.began if share.began else 0.0)
        seconds, self._spent = spent - self._spent, spent
        self._wait(QuotaKey.REQUEST, self._quotas.take_time(*self._client, seconds, self._now))

    def _fetched(self, request: Answered, response: Any) -> Any:
        """Send nothing of what was read where others have used the quota up meanwhile: it is in memory next time."""
        size = _size(response)
        if not size:
            return response
        user, client_id = self._client
        if self._wait(QuotaKey.FETCH, self._quotas.delay(QuotaKey.FETCH, user, client_id, self._now)):
            return message.with_defaults(request.api.response)
        self._take_fetched(size)
        return response

    def _take_fetched(self, size: int) -> None:
        self._wait(QuotaKey.FETCH, self._quotas.take_bytes(QuotaKey.FETCH, *self._client, size, self._now))

    # ---- waiting -----------------------------------------------------------------------------------------------------

    def recheck(self) -> None:
        """There are other quotas: wait for what they ask."""
        if self.muted:
            self._rest(self._now + max(map(self._delay, self._for), default=0.0))

    def stop(self) -> None:
        """The connection ends: what it still does counts, and nothing is waited for."""
        self._stopped = True
        self._unmute()

    def _delay(self, key: QuotaKey) -> float:
        found = self._quotas.delay(key, *self._client, self._now)
        return min(found, REQUEST_DELAY_SECONDS) if key is QuotaKey.REQUEST else found

    def _wait(self, key: QuotaKey, delay: float) -> bool:
        """Whether the connection has to wait for this quota."""
        if delay < _LEAST_SECONDS or self._stopped:
            return False
        self._quotas.metrics.throttle(_LABELS[key], delay)
        self._for.add(key)
        if not self.muted or self._now + delay > self.until:
            self._rest(self._now + delay)
        return True

    def _rest(self, until: float) -> None:
        self.until = until
        if self._timer is not None:
            self._timer.cancel()
        if not self.muted:
            self.muted = True
            self._others.add(self)
            self._quotas.metrics.throttled_connections.inc()
        self._timer = self._loop.call_at(until, self._rested)

    def _rested(self) -> None:
        self._unmute()
        self._changed()

    def _unmute(self) -> None:
        if not self.muted:
            return
        self.muted = False
        self._for.clear()
        self._others.discard(self)
        self._quotas.metrics.throttled_connections.dec()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def _client(self) -> tuple[str, str]:
        return self._session.principal.name, self._session.client_id

    @property
    def _now(self) -> float:
        return self._loop.time()


def _size(response: Any) -> int:
    """The bytes of records in the response to a Fetch."""
    if isinstance(response, EncodedBody):
        return sum(map(len, response.body))
    return sum(
        len(batch)
        for topic in response.responses
        for partition in topic.partitions
        for batch in partition.records or ()
    )


def _told(request: Answered, response: Any, milliseconds: int) -> Any:
    if isinstance(response, EncodedBody):  # of a Fetch from v4 on, which begins with it; shared with others
        (body,) = response.body
        return EncodedBody((milliseconds.to_bytes(4, "big"), memoryview(body)[4:]))
    if hasattr(response, "throttle_time_ms"):
        response.throttle_time_ms = max(response.throttle_time_ms, milliseconds)
    return response
