"""Who produces to a topic of the model broker, and what a request is refused with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.schedules.broker.peer import Peer
    from tests.schedules.broker.topic import Topic


class Refusal(Exception):
    """The broker's error to a request."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(slots=True, eq=False)
class Producer:
    """A producer's session."""

    connection: "Peer"
    id: int
    name: str
    epoch: int
    access_mode: int
    topic_epoch: int | None
    topic: "Topic | None" = None
    open: bool = False
    closed: bool = False
    pending: int = 0
    when_drained: Callable[[], None] | None = None
