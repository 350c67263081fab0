"""How many topics may be created because clients ask for them: those of each client, and all together."""

from typing import Final

from bridge.security.quotas.buckets import Bucket, Buckets
from bridge.security.quotas.limits import Owner, short

UNLIMITED: Final = -1
_MINUTE: Final = 60.0
_ALL: Final[Owner] = ("", "")


class TopicCreations:
    """How many topics may be created on one node because clients ask for them. Each client may use a minute's worth at
    once.
    """

    def __init__(self, of_client: int = UNLIMITED, of_all: int = UNLIMITED) -> None:
        """Topics a minute."""
        self._of_client = of_client
        self._of_all = of_all
        self._clients = Buckets(_MINUTE, _MINUTE)
        self._all = Buckets(_MINUTE, _MINUTE)
        self._told_at = float("-inf")
        self._refused = 0

    def create(self, client: str, now: float) -> float:
        """A client, or an address, asks for a new topic: 0.0 and it counts, or the seconds until it may have one."""
        buckets = []
        if self._of_client != UNLIMITED:
            buckets.append(self._clients.of((short(client), ""), self._of_client / _MINUTE, now))
        if self._of_all != UNLIMITED:
            buckets.append(self._all.of(_ALL, self._of_all / _MINUTE, now))
        delay = max(map(_delay, buckets), default=0.0)
        if not delay:
            for one in buckets:
                one.tokens -= 1
        return delay

    def refused(self, now: float, every: float) -> int:
        """One more was refused; how many since this was told last, or 0 if that is less than `every` seconds ago."""
        self._refused += 1
        if now - self._told_at < every:
            return 0
        told, self._told_at, self._refused = self._refused, now, 0
        return told


def _delay(bucket: Bucket) -> float:
    return max(1 - bucket.tokens, 0.0) / bucket.rate
