"""Answers that are encoded once for several clients: those who wait for the same record get the same bytes."""

from collections import OrderedDict
from collections.abc import Hashable, Sequence

from bridge.kafka.primitives import Buffer

_MOST = 64
_MOST_BYTES = 64 * 1024


class Encoded:
    """The body of an answer that tells no error."""

    __slots__ = ("body",)

    def __init__(self, body: Sequence[Buffer]) -> None:
        self.body: Sequence[Buffer] = (b"".join(body),)


class SharedAnswers:
    """The last answers, by all that they depend on. Few and small: equal requests arrive in the same moment."""

    def __init__(self) -> None:
        self._answers: OrderedDict[Hashable, tuple[int, Encoded]] = OrderedDict()

    def get(self, key: Hashable, least: int) -> Encoded | None:
        """The answer, if there is one, with that many bytes of records at least."""
        size, answer = self._answers.get(key, (-1, None))
        return answer if size >= least else None

    def put(self, key: Hashable, size: int, body: Sequence[Buffer]) -> Encoded:
        """Remember an answer with so many bytes of records, if it is small enough."""
        answer = Encoded(body)
        if len(answer.body[0]) <= _MOST_BYTES:
            self._answers[key] = size, answer
            if len(self._answers) > _MOST:
                self._answers.popitem(last=False)
        return answer
