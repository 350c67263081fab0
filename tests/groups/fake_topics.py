"""The topics in memory, for groups of the new consumer protocol: what `storage.topics.Topics` says of them."""

import asyncio
import uuid

from bridge.errors import KafkaError
from bridge.groups.consumer.model import TopicFacts
from bridge.storage.topics.topic import Topic
from bridge.storage.topics.topics import Topics


class FakeTopic(Topic):
    """A topic."""

    def __init__(self, partitions: int, topic_id: uuid.UUID | None = None) -> None:
        super().__init__("", partitions, True, topic_id or uuid.uuid4(), 0.0)


class FakeTopics(Topics):
    """Those that tests make."""

    def __init__(self, **partitions: int) -> None:
        self.here = {name: FakeTopic(number) for name, number in partitions.items()}
        self.refuses: KafkaError | None = None
        self.asked = 0
        self.holds: asyncio.Event | None = None

    async def get(self, name: str) -> FakeTopic | None:
        self.asked += 1
        if self.holds is not None:
            await self.holds.wait()
        if self.refuses is not None:
            raise self.refuses
        return self.here.get(name)

    async def by_id(self, topic_id: uuid.UUID, /) -> FakeTopic | None:
        if self.refuses is not None:
            raise self.refuses
        return next((topic for topic in self.here.values() if topic.id == topic_id), None)

    async def names(self) -> list[str]:
        self.asked += 1
        if self.refuses is not None:
            raise self.refuses
        return sorted(self.here)

    def facts(self) -> dict[str, TopicFacts]:
        """As the machine gets them."""
        return {name: TopicFacts(topic.id, topic.partitions) for name, topic in self.here.items()}
