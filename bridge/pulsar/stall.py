"""Notices that Pulsar refuses whatever is sent, as it does when its bookies' disks are full, and says so once; and for
which topics it does not answer, as it does for those above their publish rate.

Each producer tries again by itself, and its clients with it; that none of them gets anywhere is seen nowhere but here.
"""

import asyncio
from collections.abc import Callable, Iterable

from bridge.telemetry import log
from bridge.telemetry.metrics import PulsarMetrics

STALLED_AFTER_SECONDS = 5.0
"""A broker that starts again or a topic that moves refuses for a moment, too."""
FORGOTTEN_AFTER_SECONDS = 60.0
"""Whatever can still be stored is sent again within some ten seconds; one entry refused for itself is no stall."""
SLOW_AFTER_SECONDS = 5.0
"""So long an entry waits for its receipt where nothing is wrong, when brokers start or topics move."""
MOST_SLOW_TOPICS = 20
"""Told by name: those that have waited longest."""
_CHECK_INTERVAL_SECONDS = 1.0
_log = log.get(__name__)


class StallDetector:
    """Compares what Pulsar has stored with what it has refused, each second."""

    def __init__(
        self,
        metrics: PulsarMetrics,
        on_recovered: Callable[[], None],
        waiting: Callable[[], Iterable[tuple[str, float]]] = tuple,
    ) -> None:
        """`on_recovered` is called when Pulsar stores again; `waiting`: topics with sends that have no receipt, and the
        loop time since when."""
        self._metrics = metrics
        self._waiting = waiting
        self._on_recovered = on_recovered
        self._stored = self._refused = 0  # at the last look
        self._first: float | None = None  # when the first refusal was seen since something was stored
        self._last = 0.0
        self._count = 0
        self._problem: str | None = None
        self._checking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look from now on."""
        self._checking = asyncio.get_running_loop().create_task(self._keep_checking(), name="pulsar stall")

    async def close(self) -> None:
        """Look no more."""
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.gather(self._checking, return_exceptions=True)

    def problem(self) -> str | None:
        """What an operator should know, or None when all is well."""
        return self._problem

    def slow_topics(self) -> str | None:
        """Which topics Pulsar does not answer, for an operator; None where there are none."""
        slow, count = self._metrics.slow_topics, self._metrics.unacknowledged_topics.value
        if not count:
            return None
        named = ", ".join(f"{topic} for {seconds:.0f} s" for topic, seconds in slow.items())
        more = f" and {count - len(slow)} more" if count > len(slow) else ""
        return f"Pulsar has not acknowledged records of {named}{more}: see docs/operations.md"

    def _look_for_slow_topics(self, now: float) -> None:
        since: dict[str, float] = {}
        for topic, at in self._waiting():
            if now - at > SLOW_AFTER_SECONDS:
                since[topic] = min(at, since.get(topic, now))
        longest = sorted(since, key=since.__getitem__)[:MOST_SLOW_TOPICS]
        before = self._metrics.unacknowledged_topics.value
        self._metrics.slow_topics = {topic: now - since[topic] for topic in longest}
        self._metrics.unacknowledged_topics.set(len(since))
        if since and not before:
            _log.warning("! pulsar does not acknowledge", extra={"topics": len(since), "reason": self.slow_topics()})
        elif before and not since:
            _log.info("= pulsar acknowledges again")

    def check(self, now: float) -> None:
        """Judge what has become of the sends since the last look."""
        self._look_for_slow_topics(now)
        stored, refused = sum(self._metrics.receipt_seconds.counts), self._metrics.send_errors.value
        if stored != self._stored or now - self._last > FORGOTTEN_AFTER_SECONDS:
            self._first, self._count = None, 0
        if stored == self._stored and refused != self._refused:
            self._first = now if self._first is None else self._first
            self._last = now
            self._count += refused - self._refused
        self._stored, self._refused = stored, refused
        if self._first is None or self._last - self._first < STALLED_AFTER_SECONDS:
            self._set_problem(0.0, None)
        else:
            seconds = now - self._first
            self._set_problem(
                seconds,
                f"Pulsar has refused all that was sent to it for {seconds:.0f} s, {self._count} times; "
                "the bookies' disks may be full: see the brokers' and bookies' logs",
            )

    def _set_problem(self, seconds: float, problem: str | None) -> None:
        self._metrics.stalled_seconds.set(round(seconds))
        if problem is not None and self._problem is None:
            _log.error("! pulsar stores nothing", extra={"reason": problem})
        elif problem is None and self._problem is not None:
            _log.info("= pulsar stores again")
            self._on_recovered()
        self._problem = problem

    async def _keep_checking(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_CHECK_INTERVAL_SECONDS)
            self.check(loop.time())
