"""Notices that Pulsar refuses whatever is sent, as it does when its bookies' disks are full, and says so once.

Each producer tries again by itself, and its clients with it; that none of them gets anywhere is seen nowhere but here.
"""

import asyncio
from collections.abc import Callable

from bridge import log
from bridge.metrics import PulsarMetrics

STALLED_AFTER_SECONDS = 5.0
"""A broker that starts again or a topic that moves refuses for a moment, too."""
FORGOTTEN_AFTER_SECONDS = 60.0
"""Whatever can still be stored is sent again within some ten seconds; one entry refused for itself is no stall."""
_CHECK_INTERVAL_SECONDS = 1.0
_log = log.get(__name__)


class StallDetector:
    """Compares what Pulsar has stored with what it has refused, each second."""

    def __init__(self, metrics: PulsarMetrics, on_recovered: Callable[[], None]) -> None:
        """`on_recovered` is called when Pulsar stores again."""
        self._metrics = metrics
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

    def check(self, now: float) -> None:
        """Judge what has become of the sends since the last look."""
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
