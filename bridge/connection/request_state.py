"""The stages of a connection's next request, from its turn on the event loop to where the one after it may begin.

A connection begins one request at a time. What is in flight behind that (its place in the order of responses, a receipt
of Pulsar's that is awaited) is not here: it holds up no further request. This file knows no socket, task or clock;
`runner` does what the stage allows.

    IDLE ──▶ QUEUED ──▶ IDLE                    its turn has come: it is begun, if it still may be
    IDLE ──▶ IN_PLACE ──▶ IDLE                  it had nothing to wait for
                 ├──▶ POLLING ──▶ IDLE          it waits for something to happen, without a task
                 └──▶ SCHEDULED ──▶ RUNNING ──▶ IDLE or POLLING

| stage     | when                                                          | cut short or cancelled        |
|-----------|---------------------------------------------------------------|-------------------------------|
| IDLE      | no request is begun                                           |                               |
| QUEUED    | a received one waits for the connection's turn                |                               |
| IN_PLACE  | it is done without a task, and calls nothing that could ask   |                               |
| SCHEDULED | its task is made and has not begun: one that is cancelled now | noted, and seen when it begins|
|           | would do nothing at all, and leave the connection waiting     |                               |
| RUNNING   | its task runs                                                 | the task is cancelled         |
| POLLING   | a `LongPoll` waits                                            | its future is cancelled, later|
"""

from collections.abc import Mapping
from enum import Enum, auto


class RequestStage(Enum):
    """Where the request is that a connection has begun last."""

    IDLE = auto()
    QUEUED = auto()
    IN_PLACE = auto()
    SCHEDULED = auto()
    RUNNING = auto()
    POLLING = auto()

    __hash__ = object.__hash__  # Enum's own is a function of Python: several for each request


FOLLOWS: Mapping[RequestStage, frozenset[RequestStage]] = {
    RequestStage.IDLE: frozenset({RequestStage.QUEUED, RequestStage.IN_PLACE}),
    RequestStage.QUEUED: frozenset({RequestStage.IDLE}),
    RequestStage.IN_PLACE: frozenset({RequestStage.IDLE, RequestStage.SCHEDULED, RequestStage.POLLING}),
    RequestStage.SCHEDULED: frozenset({RequestStage.RUNNING}),
    RequestStage.RUNNING: frozenset({RequestStage.IDLE, RequestStage.POLLING}),
    RequestStage.POLLING: frozenset({RequestStage.IDLE}),
}
"""The stages that may follow each; what is not here cannot happen."""


class UnexpectedStage(RuntimeError):
    """A stage that cannot follow the one before: a fault of the bridge, not of the client."""
