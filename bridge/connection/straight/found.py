"""A partition's log, and by what it was found; and what straight requests ask of their connection's runner."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from bridge.cluster import NO_EPOCH, ClusterSnapshot
from bridge.cluster.membership.effects import Serving
from bridge.errors import KafkaError
from bridge.kafka.primitives import Buffer
from bridge.requests.api import Api, Broker
from bridge.requests.session import Session
from bridge.security.acls import Operation, Resource, ResourceType
from bridge.storage.partition import PartitionLog
from bridge.storage.topics.topic import Topic

if TYPE_CHECKING:
    from bridge.connection.responses import InFlightRequest

_CHECKED_SECONDS: Final = 1.0
_MAX_HEAD: Final = 512
"""Bytes."""
_MAX_TARGETS: Final = 64
_STAY_SECONDS: Final = 10.0

_K = TypeVar("_K")
_T = TypeVar("_T", bound="Target")


@dataclass(slots=True)
class FoundLog:
    """The log of a partition that this node leads. It is looked at again for each request (`holds`), so it does not
    outlive what it was found by."""

    topic: Topic
    index: int
    log: PartitionLog
    view: ClusterSnapshot
    """By which this node leads the partition."""
    resource: Resource
    """The topic, as rights name it."""
    checked_until: float = 0.0
    """Loop time up to which it need not be looked up again whether the topic is to be refreshed."""

    def holds(self, broker: Broker, now: float) -> bool:
        """Whether the general way would still find it without a wait; `now`: loop time."""
        cluster, topic = broker.cluster, self.topic
        if cluster.snapshot is not self.view or cluster.serving is not Serving.SERVE or topic.forgotten:
            return False
        if now > self.checked_until:
            self.checked_until = now + _CHECKED_SECONDS
            return broker.topics.cached(topic.name) is topic
        return True

    def allows(self, broker: Broker, session: Session, operation: Operation) -> bool:
        """Whether the client may do this with the topic, as far as that is known without asking."""
        authorization = broker.authorization
        return authorization is None or bool(authorization.allows_at_once(session, operation, self.resource))

    @staticmethod
    def at_hand(broker: Broker, topic: Topic | None, index: int, client_epoch: int = NO_EPOCH) -> "FoundLog | None":
        """None where it has to be waited for, or this node does not lead it; `client_epoch`: that a client goes by."""
        log = None if topic is None else topic.logs.get(index)
        if topic is None or log is None:
            return None
        found = FoundLog(topic, index, log, broker.cluster.snapshot, Resource(ResourceType.TOPIC, topic.name))
        try:
            broker.cluster.check_leader(topic.name, index, client_epoch)
        except KafkaError:
            return None
        return found if found.holds(broker, 0.0) else None


@dataclass(slots=True)
class Target:
    """What the head of a request stands for, and what was found for it."""

    version: int
    client_id: str
    found: FoundLog


class Targets(Generic[_K]):
    """What a connection's requests stand for, by their heads: few, and short ones, as a client may make up many.

    Where there are more, the first ones stay for some time: who takes turns among more would learn each again.
    """

    __slots__ = ("_known", "_stays_until")

    def __init__(self) -> None:
        self._known: dict[bytes, _K] = {}
        self._stays_until = 0.0

    def get(self, head: bytes) -> _K | None:
        """What this head stands for, if that is known."""
        return self._known.get(head)

    def may_learn(self, head: bytes, now: float) -> bool:
        """Whether there is room for it; `now`: loop time."""
        if len(head) > _MAX_HEAD:
            return False
        if len(self._known) >= _MAX_TARGETS:
            if now < self._stays_until:
                return False
            self.clear()
        if not self._known:
            self._stays_until = now + _STAY_SECONDS
        return True

    def learn(self, head: bytes, target: _K) -> None:
        """Know it from now on."""
        self._known[head] = target

    def clear(self) -> None:
        """What was known holds no more."""
        self._known.clear()


class OneWay(Generic[_T]):
    """The straight way of one connection's requests of one API."""

    __slots__ = ("_metrics", "_operation", "_session", "_targets", "broker")

    def __init__(self, broker: Broker, session: Session, api: Api, operation: Operation) -> None:
        """`operation`: on the topic, which a client has to be allowed."""
        self.broker, self._session, self._operation = broker, session, operation
        self._metrics = broker.metrics.api(api.key)
        self._targets = Targets[_T]()

    def target(self, frame: memoryview, head: bytes, now: float) -> _T | None:
        """What the head stands for, if that still holds and the client may do it; None: it goes the general way.

        `now`: loop time.
        """
        target = self._targets.get(head)
        if target is None and self._targets.may_learn(head, now):
            target = self._learned(frame, head)
            if target is not None:
                self._targets.learn(head, target)
        if target is None:
            return None
        if not target.found.holds(self.broker, now):
            self._targets.clear()
            return None
        return target if target.found.allows(self.broker, self._session, self._operation) else None

    def _learned(self, frame: memoryview, head: bytes) -> _T | None:
        """What the general way reads in this request, if it is a plain one and all is at hand; None if not."""
        raise NotImplementedError

    def count(self, target: _T, frame: memoryview) -> None:
        """A request goes straight to its end."""
        size = len(frame) + 4
        self._metrics.requests.value += 1
        self._metrics.bytes_in.value += size
        session = self._session
        session.client_id = target.client_id
        session.traffic.requests += 1
        session.traffic.bytes_in += size


class StraightRequest:
    """A request that goes straight, in its place in the order of responses."""

    __slots__ = ("correlation_id", "cut_short", "received", "response", "size")

    api: Api

    def __init__(self, frame: memoryview, received: float) -> None:
        self.correlation_id = int.from_bytes(frame[4:8], "big", signed=True)
        self.cut_short = False  # a long poll that is to be answered now
        self.received = received
        self.response: Sequence[Buffer] | None = None
        self.size = len(frame)  # what the budget counts for it

    @property
    def version(self) -> int:
        """Of its API."""
        raise NotImplementedError

    def cancel(self) -> None:
        """What is waited for is not wanted any more."""


class Answers(Protocol):
    """The runner of a connection, as far as it answers straight requests."""

    in_flight: "deque[InFlightRequest | StraightRequest]"
    """In the order of their answers."""

    def answer_bytes(self, request: StraightRequest, answer: bytes) -> bool:
        """Answer with these bytes; False, and nothing done, where more is to be told."""

    def answer(self, request: StraightRequest, make: Callable[[], Any]) -> None:
        """Answer with the response that is made, None for no answer; what that raises closes the connection."""

    def poll(self, request: StraightRequest) -> None:
        """It waits: the connection's next request begins when it is answered."""

    def go_general(self, request: StraightRequest, frame: memoryview) -> None:
        """Serve this request in the place of one that waits, the general way."""

    def nothing_yet(self, request: StraightRequest) -> Any:
        """What it is answered when it is cut short, or its client is gone."""
