"""How long a broker takes to answer, of late."""

from typing import Final

from bridge.telemetry.metrics import BrokerMetrics

_WEIGHT: Final = 0.125  # of the newest, as TCP smooths its round trips (RFC 6298)


class Delay:
    """A smoothed time; two additions for each answer, for entries are acknowledged on the hot path."""

    __slots__ = ("_broker", "answered_at", "seconds")

    def __init__(self, broker: BrokerMetrics) -> None:
        self._broker = broker
        self.seconds: float | None = None
        """None before the first answer."""
        self.answered_at = float("-inf")
        """The loop time of the latest answer."""

    def answered(self, sent_at: float, now: float) -> None:
        """What was sent then has its answer now; loop times."""
        took = now - sent_at
        self.seconds = took if self.seconds is None else self.seconds + _WEIGHT * (took - self.seconds)
        self.answered_at = now

    def acknowledged(self, sent_at: float, now: float) -> float:
        """An entry that was sent then has its receipt now: how long that took."""
        self.answered(sent_at, now)
        return self._broker.acknowledged(sent_at, now)
