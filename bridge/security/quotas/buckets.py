"""What was used of each quota: token buckets that may be overdrawn, as many as are remembered.

A bucket fills at the rate of its quota, up to a burst. What is done takes its tokens, whether they are there or not;
then the client waits until the bucket is out of debt. So the time that a client is told is exact: with it, over any
time t no more is done than the rate allows in t, plus the burst and the last thing that was done.
"""

from collections import OrderedDict
from typing import Final

from bridge.security.quotas.limits import Owner

MAX_REMEMBERED: Final = 10_000
"""Owners of one quota: some hundred bytes each. A client that sends ever new client ids makes no more."""
IDLE_SECONDS: Final = 60.0
_LOOKED_AT: Final = 2


class Bucket:
    """The tokens of one owner: debt is negative."""

    __slots__ = ("at", "burst", "rate", "tokens")

    def __init__(self, tokens: float, rate: float, burst: float, now: float) -> None:
        self.tokens = tokens
        self.rate = rate
        self.burst = burst
        self.at = now

    def fill(self, rate: float, burst: float, now: float) -> None:
        """Add what has come by now; from now on the quota is this."""
        if now > self.at:
            self.tokens += (now - self.at) * self.rate
            self.at = now
        self.rate, self.burst = rate, burst
        self.tokens = min(burst, self.tokens)

    @property
    def delay(self) -> float:
        """The seconds until it is out of debt, as of when it was filled last."""
        return -self.tokens / self.rate if self.tokens < 0 else 0.0

    def is_idle(self, now: float) -> bool:
        """Whether it was not used for long, and is as good as another one."""
        unused = now - self.at
        return unused >= IDLE_SECONDS and self.tokens + unused * self.rate >= self.burst


class Buckets:
    """The buckets of one quota, by owner: the ones used last, of users and of client ids apart.

    One that is not idle is forgotten only for as many others as are remembered. A user's is never forgotten for those
    of client ids, which clients may choose.
    """

    def __init__(self, burst_seconds: float, begin_seconds: float, most: int = MAX_REMEMBERED) -> None:
        """`burst_seconds`: how many seconds' tokens a bucket holds; `begin_seconds`: how many it has at first."""
        self._burst_seconds = burst_seconds
        self._begin_seconds = begin_seconds
        self._most = most
        self._of_users: OrderedDict[Owner, Bucket] = OrderedDict()
        self._of_client_ids: OrderedDict[Owner, Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._of_users) + len(self._of_client_ids)

    def of(self, owner: Owner, rate: float, now: float) -> Bucket:
        """The owner's bucket, filled."""
        buckets, burst = self._of_client_ids if owner[1] else self._of_users, rate * self._burst_seconds
        bucket = buckets.get(owner)
        if bucket is None:
            _forget_idle(buckets, now)
            bucket = buckets[owner] = Bucket(rate * self._begin_seconds, rate, burst, now)
            if len(buckets) > self._most:
                buckets.popitem(last=False)
        else:
            buckets.move_to_end(owner)
            bucket.fill(rate, burst, now)
        return bucket


def _forget_idle(buckets: OrderedDict[Owner, Bucket], now: float) -> None:
    """Forget more of those that were not used for long than come."""
    for _ in range(_LOOKED_AT):
        oldest = next(iter(buckets), None)
        if oldest is None or not buckets[oldest].is_idle(now):
            return
        del buckets[oldest]
