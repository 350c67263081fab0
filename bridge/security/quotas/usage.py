"""What clients use of their quotas, and how long they have to wait when that was too much.

All times are those of the caller's clock, in seconds.
"""

from collections.abc import Callable
from typing import Final

from bridge.security.quotas.buckets import Bucket, Buckets
from bridge.security.quotas.entities import QuotaKey
from bridge.security.quotas.limits import Limits, Values
from bridge.telemetry.metrics import QuotaMetrics

REQUEST_DELAY_SECONDS: Final = 1.0
"""The longest wait for handling time, as in Kafka: a member of a group must be able to send heartbeats."""
_REQUEST_DEBT_SECONDS: Final = 10.0
"""More is forgiven, as Kafka's window forgets it."""
_FETCH_SECONDS: Final = 0.25
"""A Fetch gets what so many seconds allow, or what was saved up if that is more; and one batch in any case (KIP-74)."""
_PERCENT: Final = 100.0


def _buckets() -> dict[QuotaKey, Buckets]:
    """Changes of topics may come 11 seconds' worth at once (KIP-599), connections ten, and bytes one."""
    return {
        QuotaKey.PRODUCE: Buckets(1.0, 0.5),
        QuotaKey.FETCH: Buckets(1.0, 0.5),
        QuotaKey.REQUEST: Buckets(1.0, 1.0),
        QuotaKey.MUTATION: Buckets(11.0, 11.0),
        QuotaKey.CONNECTION: Buckets(10.0, 10.0),
    }


class ClientQuotas:
    """The quotas of one process: each node counts what it does itself, as each of Kafka's brokers does."""

    __slots__ = ("_buckets", "_limits", "active", "metrics", "of_addresses", "on_change")

    def __init__(self, metrics: QuotaMetrics) -> None:
        self.metrics = metrics
        self.active = False
        """Whether there are quotas of users or client ids."""
        self.of_addresses = False
        """Whether there are quotas of addresses."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when there are other quotas."""
        self._limits = Limits({})
        self._buckets = _buckets()

    def set_values(self, values: Values) -> None:
        """These are the quotas from now on; what was used of the former ones counts."""
        self.set_limits(Limits(values))

    def set_limits(self, limits: Limits) -> None:
        """The same; or there are others in these than before."""
        self._limits = limits
        self.active, self.of_addresses = self._limits.of_clients, self._limits.of_addresses
        if not (self.active or self.of_addresses):
            self._buckets = _buckets()
        self.on_change()

    @property
    def remembered(self) -> int:
        """How many buckets there are."""
        return sum(map(len, self._buckets.values()))

    def take_bytes(self, key: QuotaKey, user: str, client_id: str, count: int, now: float) -> float:
        """So many bytes were produced or fetched; the seconds to wait for it."""
        bucket = self._bucket(key, user, client_id, now)
        if bucket is None:
            return 0.0
        bucket.tokens -= count
        return bucket.delay

    def take_time(self, user: str, client_id: str, seconds: float, now: float) -> float:
        """Requests were handled for so long; the seconds to wait for it."""
        bucket = self._bucket(QuotaKey.REQUEST, user, client_id, now)
        if bucket is None:
            return 0.0
        bucket.tokens = max(bucket.tokens - seconds * _PERCENT, -_REQUEST_DEBT_SECONDS * bucket.rate)
        return min(bucket.delay, REQUEST_DELAY_SECONDS)

    def delay(self, key: QuotaKey, user: str, client_id: str, now: float) -> float:
        """The seconds to wait for what was done."""
        bucket = self._bucket(key, user, client_id, now)
        return 0.0 if bucket is None else bucket.delay

    def fetch_bytes(self, user: str, client_id: str, now: float) -> int | None:
        """How many bytes a Fetch may have now, one that is out of debt; None: there is no limit."""
        bucket = self._bucket(QuotaKey.FETCH, user, client_id, now)
        return None if bucket is None else max(int(max(bucket.tokens, bucket.rate * _FETCH_SECONDS)), 1)

    def mutate(self, user: str, client_id: str, count: int, now: float, *, strict: bool) -> tuple[bool, float]:
        """Whether so many partitions may be created or deleted, and the seconds to wait for that (KIP-599).

        `strict`: what comes in debt is refused, and has to wait. Else it is done, and the next one waits.
        """
        bucket = self._bucket(QuotaKey.MUTATION, user, client_id, now)
        if bucket is None:
            return True, 0.0
        if strict and bucket.tokens < 0:
            return False, bucket.delay
        bucket.tokens -= count
        return True, 0.0 if strict else bucket.delay

    def connect(self, host: str, now: float) -> float:
        """A connection comes from an address: 0.0 and it counts, or the seconds until the next one may come."""
        limit = self._limits.connections(host)
        if limit is None:
            return 0.0
        bucket = self._buckets[QuotaKey.CONNECTION].of(limit.owner, limit.value, now)
        if bucket.tokens >= 1:
            bucket.tokens -= 1
            return 0.0
        return (1 - bucket.tokens) / bucket.rate

    def _bucket(self, key: QuotaKey, user: str, client_id: str, now: float) -> Bucket | None:
        limit = self._limits.find(key, user, client_id)
        return None if limit is None else self._buckets[key].of(limit.owner, limit.value, now)
