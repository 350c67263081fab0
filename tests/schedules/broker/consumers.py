"""Who reads one topic of the model broker: non-durable subscriptions, their permits, and what is delivered when."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bridge.pulsar.types import EARLIEST, LATEST, Position
from tests.schedules.chance import LONGEST

if TYPE_CHECKING:
    from tests.schedules.broker.peer import Peer
    from tests.schedules.broker.server import Broker
    from tests.schedules.broker.topic import Topic


@dataclass(slots=True, eq=False)
class Consumer:
    """A consumer's session; `at` is the number of the entry that it gets next, `began` the place before the first."""

    connection: "Peer"
    id: int
    subscription: str
    start: Position
    topic: "Topic | None" = None
    at: int = 0
    began: Position = EARLIEST
    added_at: float = 0.0
    permits: int = 0
    open: bool = False
    closed: bool = False
    scheduled: bool = False


class Consumers:
    """Those of one topic, by subscription: each of one consumer."""

    def __init__(self, topic: "Topic", broker: "Broker") -> None:
        self._topic = topic
        self._broker = broker
        self._by_name: dict[str, Consumer] = {}

    def __iter__(self) -> Iterator[Consumer]:
        return iter(list(self._by_name.values()))

    def __len__(self) -> int:
        return len(self._by_name)

    def add(self, consumer: Consumer, then: Callable[[bool], None]) -> None:
        """Let a consumer in; False where another one has the subscription and shows signs of life."""
        old = self._by_name.get(consumer.subscription)
        if old is None:
            log = self._topic.log
            consumer.topic = self._topic
            consumer.added_at = self._broker.loop.now
            consumer.at = log.end if consumer.start == LATEST else log.number_of(consumer.start)
            consumer.began = log.place_before(consumer.at)
            self._by_name[consumer.subscription] = consumer
            then(True)
        else:
            old.connection.check_alive(lambda alive: then(False) if alive else self.add(consumer, then))

    def remove(self, consumer: Consumer) -> None:
        """It is closed, or its connection is gone."""
        consumer.closed = True
        if self._by_name.get(consumer.subscription) is consumer:
            del self._by_name[consumer.subscription]

    def close(self) -> None:
        """The topic goes: tell all of them but, perhaps, those that have only just come.

        So does Pulsar, once in a hundred times when a topic is unloaded just after an unload (`tests/pulsar/consumer`).
        """
        for consumer in list(self._by_name.values()):
            is_new = self._broker.loop.now - consumer.added_at < LONGEST
            if is_new and self._broker.chance.often(0.5):
                self._broker.trace("pulsar", "= consumer %d forgotten", consumer.id)
                del self._by_name[consumer.subscription]
                consumer.open = False
            else:
                consumer.connection.close_consumer(consumer)
                self.remove(consumer)

    def forget(self) -> None:
        """The broker's process is gone, and they with it."""
        self._by_name.clear()

    def wake(self) -> None:
        """There are new entries."""
        for consumer in list(self._by_name.values()):
            self.schedule(consumer)

    def schedule(self, consumer: Consumer) -> None:
        """Deliver after a while, if there is something to deliver and the consumer may have it."""
        if consumer.open and not consumer.scheduled and consumer.permits > 0 and consumer.at < self._topic.log.end:
            consumer.scheduled = True
            self._broker.after("deliver", self._deliver, consumer)

    def _deliver(self, consumer: Consumer) -> None:
        """As many entries as there are permits, whatever they hold (`PersistentDispatcherSingleActiveConsumer`)."""
        consumer.scheduled = False
        log = self._topic.log
        consumer.at = max(consumer.at, log.trimmed)
        most = min(max(consumer.permits, 0), log.end - consumer.at, 100)
        for _ in range(most):
            if consumer.closed:
                return
            entry = log.entry(consumer.at)
            consumer.at += 1
            consumer.permits -= entry.count
            consumer.connection.send_entry(consumer, entry)
        self.schedule(consumer)
