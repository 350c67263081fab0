"""Responses encoded once for several clients: those that wait for the same record get the same bytes."""

from collections import OrderedDict
from collections.abc import Hashable, Sequence

from bridge.kafka.primitives import Buffer
from bridge.telemetry.record_counts import NOTHING, Sent

_MAX_RESPONSES = 64
_MAX_BYTES = 64 * 1024


class EncodedBody:
    """The body of a response without errors, and what of the partition is in it."""

    __slots__ = ("body", "sent")

    def __init__(self, body: Sequence[Buffer], sent: Sent = NOTHING) -> None:
        self.body: Sequence[Buffer] = (b"".join(body),)
        self.sent = sent


class SharedResponses:
    """The latest responses, by all that they depend on. Few and small: the clients that share one asked at the same
    time."""

    def __init__(self) -> None:
        self._answers: OrderedDict[Hashable, tuple[int, EncodedBody]] = OrderedDict()

    def get(self, key: Hashable, least: int) -> EncodedBody | None:
        """The response, if there is one, with at least so many bytes of records."""
        size, answer = self._answers.get(key, (-1, None))
        return answer if size >= least else None

    def put(self, key: Hashable, size: int, body: Sequence[Buffer], sent: Sent = NOTHING) -> EncodedBody:
        """Keep a response with so many bytes of records, if it is small enough; `sent`: what of them is in it."""
        answer = EncodedBody(body, sent)
        if len(answer.body[0]) <= _MAX_BYTES:
            self._answers[key] = size, answer
            if len(self._answers) > _MAX_RESPONSES:
                self._answers.popitem(last=False)
        return answer
