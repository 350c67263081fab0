"""Which topics there are in the model's one namespace, as the metadata store knows it, and who watches them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bridge.pulsar.pb import PulsarApi_pb2 as pb
from tests.schedules.broker.topic import Topic

if TYPE_CHECKING:
    from tests.schedules.broker.connection import Connection
    from tests.schedules.broker.server import Broker

_MARK = "-partition-"


@dataclass(slots=True)
class Partitioned:
    """A partitioned topic's metadata."""

    partitions: int
    properties: dict[str, str] = field(default_factory=dict)
    policies: dict[str, object] = field(default_factory=dict)


class Namespace:
    """All of it survives a crash of the broker."""

    def __init__(self, broker: "Broker") -> None:
        self.partitioned: dict[str, Partitioned] = {}
        self.topics: dict[str, Topic] = {}
        """Those that hold data: partitions, and topics without any."""
        self._broker = broker

    def partitioned_names(self) -> list[str]:
        """What the admin API lists as partitioned topics."""
        return sorted(self.partitioned)

    def stored(self) -> list[str]:
        """The topics that hold data, as both the admin API and the protocol list them."""
        return sorted(self.topics)

    def partitions(self, name: str) -> int | None:
        """How many partitions a topic has, 0 for one without; None if there is none of that name."""
        if name in self.partitioned:
            return self.partitioned[name].partitions
        return 0 if name in self.topics else None

    def add(self, name: str, properties: Mapping[str, str] | None = None) -> Topic:
        """A topic that holds data comes into being, unless it is there."""
        topic = self.topics.get(name)
        if topic is None:
            topic = self.topics[name] = Topic(name, self._broker, properties)
            self._broker.trace("pulsar", "= %s created", topic.short)
            self._tell([name], [])
        return topic

    def remove(self, name: str) -> None:
        """It goes, with its clients."""
        topic = self.topics.pop(name, None)
        if topic is not None:
            topic.delete()
            self._tell([], [name])

    def has_deduplication(self, topic: Topic) -> bool:
        """Whether a topic's policies turn deduplication on, as its whole topic has them."""
        whole = self.partitioned.get(topic.name.rpartition(_MARK)[0], topic)
        return bool(whole.policies.get("deduplicationEnabled"))

    def partition_names(self, name: str) -> list[str]:
        """The partitions of a partitioned topic."""
        return [f"{name}{_MARK}{number}" for number in range(self.partitioned[name].partitions)]

    def may_be_made(self, name: str) -> bool:
        """Whether a producer may bring a topic of this name into being: not a partition beyond its topic's."""
        whole, mark, number = name.rpartition(_MARK)
        if not mark or whole not in self.partitioned:
            return True
        return int(number) < self.partitioned[whole].partitions

    def _tell(self, new: list[str], gone: list[str]) -> None:
        for connection in list(self._broker.connections.values()):
            for watcher in (number for number, is_open in connection.watches.items() if is_open):
                update = pb.CommandWatchTopicUpdate(
                    watcher_id=watcher, new_topics=new, deleted_topics=gone, topics_hash=""
                )
                self._broker.after("watch update", self._update, connection, update)

    def _update(self, connection: "Connection", update: pb.CommandWatchTopicUpdate) -> None:
        connection.send(type=pb.BaseCommand.WATCH_TOPIC_UPDATE, watch_topic_update=update)
