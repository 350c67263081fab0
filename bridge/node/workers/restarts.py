"""How long a worker that has died is left alone: not at all, then longer and longer where deaths follow each other."""

_QUICK_SECONDS = 10.0
_FIRST_PAUSE_SECONDS = 1.0
_MAX_PAUSE_SECONDS = 30.0


class WorkerRestarts:
    """The restarts of one worker, and when the next one may be."""

    def __init__(self) -> None:
        self._died_at = float("-inf")
        self._pause = 0.0
        self.count = 0

    def died(self, now: float) -> float:
        """Seconds to wait before it is started again; `now`: when it died."""
        # the pause is no life: two deaths follow each other if it ran for less than this in between
        quick = now - self._died_at < _QUICK_SECONDS
        self._pause = min(max(_FIRST_PAUSE_SECONDS, 2 * self._pause), _MAX_PAUSE_SECONDS) if quick else 0.0
        self._died_at = now + self._pause
        self.count += 1
        return self._pause
