"""What Pulsar has answered to questions about rights, remembered for a bounded time.

An answer is young at first. Then it still counts, and its next use has the question asked again in the background. Then
it is old, and its next use waits for a new one. While Pulsar does not answer, it counts for longer, and no longer than
that.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from itertools import islice
from typing import Final, Generic, TypeVar

from bridge.errors import BridgeError
from bridge.runtime.fairness import FairSemaphore
from bridge.runtime.futures import loop_time, retrieve_exception, wait_shared
from bridge.telemetry import log
from bridge.telemetry.metrics import PermissionMetrics

YOUNG_SECONDS: Final = {True: 10.0, False: 1.0}
"""By answer. What was denied may be granted a moment later, and the client be started again."""
OLD_SECONDS: Final = {True: 25.0, False: 5.0}
AWAY_SECONDS: Final = 300.0
QUESTION_SECONDS: Final = 5.0
RETRY_SECONDS: Final = 1.0
"""After a question without an answer, if there is an older one."""
MAX_ANSWERS: Final = 50_000
"""Some 500 bytes each."""
MAX_QUESTIONS: Final = 32
"""Under way at once."""

_log = log.get(__name__)

_K = TypeVar("_K", bound=Hashable)


class NoAnswer(BridgeError):
    """Pulsar cannot be asked, and what it said last is too long ago."""


class _Answer:
    __slots__ = ("asking", "at", "failed_at", "value")

    def __init__(self) -> None:
        self.value: bool | None = None
        self.at = 0.0
        self.failed_at = float("-inf")
        """When the last question had no answer."""
        self.asking: asyncio.Task[None] | None = None


class Answers(Generic[_K]):
    """`ask` asks Pulsar; None is a yes for those alone who wait. `unknown`: the errors by which it cannot say."""

    def __init__(
        self,
        ask: Callable[[_K], Awaitable[bool | None]],
        unknown: type[Exception],
        metrics: PermissionMetrics,
        now: Callable[[], float] = loop_time,
        most: int = MAX_ANSWERS,
    ) -> None:
        self._ask = ask
        self._unknown = unknown
        self._now = now
        self._most = most
        self._answers: dict[_K, _Answer] = {}
        self._room = FairSemaphore(MAX_QUESTIONS)
        self._metrics = metrics
        self._is_away = False

    def __len__(self) -> int:
        return len(self._answers)

    def known(self, key: _K) -> bool | None:
        """The answer, if one is remembered that counts without waiting."""
        answer = self._answers.get(key)
        if answer is None or (value := answer.value) is None:
            return None
        now = self._now()
        age = now - answer.at
        if age < YOUNG_SECONDS[value]:
            return value
        if answer.failed_at > answer.at:
            if age >= AWAY_SECONDS:
                return None
            if now - answer.failed_at >= RETRY_SECONDS:
                self._ask_again(key, answer)
            return value
        if age >= OLD_SECONDS[value]:
            return None
        self._ask_again(key, answer)
        return value

    async def get(self, key: _K) -> bool:
        """The answer; NoAnswer."""
        value = self.known(key)
        if value is not None:
            return value
        answer = self._answers.get(key) or self._make(key)
        since = self._now()
        await wait_shared(self._ask_again(key, answer), NoAnswer("the bridge stops"))
        if answer.value is None or (answer.failed_at >= since and self._now() - answer.at >= AWAY_SECONDS):
            raise NoAnswer("Pulsar does not say whether this is allowed")
        return answer.value

    async def close(self) -> None:
        """Ask no more."""
        asking = [answer.asking for answer in self._answers.values() if answer.asking is not None]
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        self._answers.clear()
        self._metrics.remembered.set(0)

    def _make(self, key: _K) -> _Answer:
        if len(self._answers) >= self._most:
            # those answered longest ago; what is being asked stays with those that wait for it
            for oldest in list(islice(self._answers, max(1, self._most // 10))):
                del self._answers[oldest]
        answer = self._answers[key] = _Answer()
        self._metrics.remembered.set(len(self._answers))
        return answer

    def _ask_again(self, key: _K, answer: _Answer) -> "asyncio.Task[None]":
        """One question for all who wait."""
        if answer.asking is None:
            asking = asyncio.get_running_loop().create_task(self._asked(key, answer), name="ask Pulsar for a right")
            answer.asking = asking
            answer.asking.add_done_callback(retrieve_exception)
        return answer.asking

    async def _asked(self, key: _K, answer: _Answer) -> None:
        try:
            async with self._room:
                started = self._now()
                async with asyncio.timeout(QUESTION_SECONDS):
                    value = await self._ask(key)
        except (self._unknown, TimeoutError) as error:
            answer.failed_at = self._now()
            self._tell(error)
            return
        finally:
            answer.asking = None
        answer.value, answer.at = (True, float("-inf")) if value is None else (value, started)
        if self._answers.get(key) is answer:
            del self._answers[key]
            self._answers[key] = answer  # the last one
        self._is_away = False
        self._metrics.questions["allowed" if answer.value else "denied"].inc()

    def _tell(self, error: Exception) -> None:
        self._metrics.questions["unknown"].inc()
        # once for each time that Pulsar is away: there may be thousands of questions
        if not self._is_away:
            self._is_away = True
            reason = "no answer in time" if isinstance(error, TimeoutError) else str(error)
            _log.warning("! pulsar does not tell permissions", extra={"reason": reason})
