"""The model broker as a process: it listens, takes its time, stops, dies and comes back, all by the run's seed."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any, TypeVar

from bridge.pulsar.admin import NO_RESPONSE, AdminError
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from tests.schedules.broker.connection import Connection
from tests.schedules.broker.namespace import Namespace
from tests.schedules.broker.producers import Refusal
from tests.schedules.broker.topic import State, Topic
from tests.schedules.chance import WALL, Chance
from tests.schedules.loop import ScheduleLoop
from tests.schedules.network import Network
from tests.schedules.pipe import Endpoint
from tests.schedules.trace import Trace

_T = TypeVar("_T")
HOST, PORT = "pulsar", 6650
Then = Callable[[Topic | None, Refusal | None], None]


class Broker:
    """One Pulsar. What it stores survives `crash`, what it is doing does not."""

    def __init__(self, network: Network, chance: Chance, trace: Trace) -> None:
        self.network = network
        self.loop: ScheduleLoop = network.loop
        self.chance = chance
        self.trace = trace
        self.ledger_ids = itertools.count(chance.randint(3, 9), chance.choice((1, 2, 7)))
        self.connections: dict[int, Connection] = {}
        self.requests: dict[asyncio.Future[object], None] = {}
        """Of the admin API, not answered yet."""
        self.namespace = Namespace(self)
        self.up = True
        self.frozen = False
        self.deduplicates = True
        """brokerDeduplicationEnabled; topics have a policy of their own."""
        self.max_message_size = 1 << 20
        """That it tells its clients."""
        self.is_http_busy = False
        """The admin API answers 503."""
        self._life = 0
        self._held: list[tuple[int, Callable[..., None], tuple[Any, ...]]] = []
        self._owns_namespace = False
        network.listen(HOST, PORT, self._accept)

    # --- time -------------------------------------------------------------------------------------------------------

    def after(self, kind: str, work: Callable[..., None], *args: Any) -> None:
        """Do something after a delay of this kind, unless the process has died by then; not while it is stopped."""
        self.in_seconds(self.chance.delay(kind), work, *args)

    def at(self, when: float, work: Callable[..., None], *args: Any) -> None:
        """The same at a time of the loop's clock."""
        self.in_seconds(when - self.loop.now, work, *args)

    def in_seconds(self, seconds: float, work: Callable[..., None], *args: Any) -> None:
        """The same after so many seconds."""
        self.loop.after(seconds, self._run, self._life, work, args)

    def _run(self, life: int, work: Callable[..., None], args: tuple[Any, ...]) -> None:
        if life != self._life:
            return
        if self.frozen:
            self._held.append((life, work, args))
        else:
            work(*args)

    def listing(self, kind: str, look: Callable[[], _T], then: Callable[..., None], *args: Any) -> None:
        """Answer a question that takes a while from how things stand at its beginning, or at its end."""
        if self.chance.often(0.5):
            found = look()
            self.after(kind, lambda: then(found, *args))
        else:
            self.after(kind, lambda: then(look(), *args))

    def wall_ms(self) -> int:
        """The broker's clock."""
        return int((WALL + self.loop.now) * 1000)

    # --- topics -----------------------------------------------------------------------------------------------------

    def take_over(self) -> bool:
        """A look-up: the broker owns the namespace's bundle from then on."""
        self._owns_namespace = True
        return True

    def url_of(self, topic: str) -> str:
        """The address of the broker that serves a topic."""
        return f"pulsar://{HOST}:{PORT}"

    def open(self, name: str, create: bool, then: Then) -> None:
        """Have a topic loaded for a producer or a consumer."""
        if not self._owns_namespace:
            text = "Namespace bundle is not served by this instance. Please redo the lookup"
            then(None, Refusal(pb.ServiceNotReady, text))
        else:
            self.after("open", self._open, name, create, then)

    def _open(self, name: str, create: bool, then: Then) -> None:
        topic = self.namespace.topics.get(name)
        if topic is None:
            if not create or not self.namespace.may_be_made(name):
                then(None, Refusal(pb.TopicNotFound, f"Topic {name} does not exist"))
                return
            topic = self.namespace.add(name)
        topic.when_loaded(lambda refusal: then(topic, refusal))

    def topic(self, name: str) -> Topic:
        """A topic that is there, for tests to look at."""
        return self.namespace.topics[name]

    # --- faults -----------------------------------------------------------------------------------------------------

    def crash(self, down: float) -> None:
        """SIGKILL; it is up again after so many seconds."""
        if not self.up:
            return
        self.trace("pulsar", "! killed")
        self.up = self.frozen = self._owns_namespace = False
        self._life += 1
        self._held.clear()
        for connection in self.connections.values():
            connection.closed = True
            connection.endpoint.reset()
        self.connections.clear()
        for topic in self.namespace.topics.values():
            topic.crash()
        for answer in self.requests:
            self.loop.after(self.chance.delay("rest answer"), self.loop.arrive, _lose, answer)
        self.requests.clear()
        self.network.listen(HOST, PORT, None)
        self.loop.after(down, self._restart)

    def _restart(self) -> None:
        self.trace("pulsar", "= up again")
        self.up = True
        self.network.listen(HOST, PORT, self._accept)

    def freeze(self) -> None:
        """SIGSTOP: connections stand, and are made, and nothing is answered."""
        if self.up and not self.frozen:
            self.trace("pulsar", "! stopped")
            self.frozen = True
            for connection in self.connections.values():
                connection.endpoint.freeze()

    def thaw(self) -> None:
        """SIGCONT."""
        if not self.frozen:
            return
        self.trace("pulsar", "= goes on")
        self.frozen = False
        held, self._held = self._held, []
        for life, work, args in held:
            self._run(life, work, args)
        for connection in list(self.connections.values()):
            connection.endpoint.thaw()

    def _any_connection(self) -> "Connection":
        """Mostly one that records are sent on: topics have theirs, and there are others."""
        found = list(self.connections.values())
        producing = [one for one in found if one.producers]
        return self.chance.choice(producing if producing and self.chance.often(2 / 3) else found)

    def reset_connection(self) -> None:
        """One of the connections breaks, between bridge and broker."""
        if self.connections:
            connection = self._any_connection()
            self.trace("network", "! connection %d reset", connection.endpoint.number)
            connection.endpoint.reset()
            self.after("to broker", connection.lost)

    def silence_connection(self, seconds: float) -> None:
        """On one of the connections nothing arrives, either way, for so many seconds."""
        if self.connections:
            connection = self._any_connection()
            self.trace("network", "! connection %d silent for %.1f s", connection.endpoint.number, seconds)
            self.network.silence(connection.endpoint, seconds)

    def unload(self, name: str) -> None:
        """As `pulsar-admin topics unload`."""
        topic = self.namespace.topics.get(name)
        if topic is not None and topic.state is State.LOADED and self.up and not self.frozen:
            topic.unload()

    # --- what tests ask ---------------------------------------------------------------------------------------------

    def sessions(self) -> list[str]:
        """Every producer and consumer that is open here."""
        found = []
        for topic in self.namespace.topics.values():
            found += [f"producer {name} of {topic.short}" for name in topic.producers]
            found += [f"consumer {one.id} ({one.subscription}) of {topic.short}" for one in topic.consumers]
        return found

    def _accept(self, endpoint: Endpoint) -> None:
        if self.frozen:
            endpoint.freeze()
        self.connections[endpoint.number] = Connection(self, endpoint)
        self.trace(f"pulsar/{endpoint.number}", "= connected")


def _lose(answer: "asyncio.Future[object]") -> None:
    if not answer.done():
        answer.set_result(AdminError(NO_RESPONSE, "the broker went away"))
