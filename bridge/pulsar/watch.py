"""Being told which topics of a namespace come and go (PIP-145)."""

from collections.abc import Callable, Sequence

from bridge.pulsar import commands
from bridge.pulsar.attachment import Attachment
from bridge.pulsar.connection import Connection
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.subscription import Access
from bridge.pulsar.types import PulsarError

Callback = Callable[[Sequence[str], Sequence[str]], None]


class TopicWatch(Attachment):
    """Made by `PulsarClient.watch_topics`; after a reconnect the difference to what was known is told."""

    def __init__(self, namespace: str, callback: Callback, access: Access) -> None:
        super().__init__("watch", namespace, access.pool, access.settings, access.metrics)
        self.topics: frozenset[str] = frozenset()
        self._callback = callback
        self._access = access
        self._id = 0
        self._start()

    async def close(self) -> None:
        """Stop watching."""
        connection = await self._shut("the watch")
        if connection is not None:
            self._leave(connection)

    def changed(self, update: pb.CommandWatchTopicUpdate) -> None:
        """The broker tells of topics."""
        self._become((self.topics | set(update.new_topics)) - set(update.deleted_topics))

    async def _attach(self) -> Connection:
        connection = await self._access.pool.service()
        self._id = next(self._access.ids)
        connection.watches[self._id] = self
        try:
            answer = await connection.request(
                lambda request_id: commands.watch_topic_list(
                    request_id, self._id, self.topic, f"persistent://{self.topic}/.*"
                )
            )
        except BaseException:
            self._leave(connection)
            raise
        self._become(frozenset(answer.watch_topic_list_success.topic))
        return connection

    def _leave(self, connection: Connection) -> None:
        watcher = self._id
        if connection.watches.pop(watcher, None) is not None:
            connection.notify(lambda request_id: commands.watch_topic_list_close(request_id, watcher))

    def _lives_on(self, connection: Connection) -> bool:
        return connection.watches.get(self._id) is self

    def _attached(self, connection: Connection) -> None:
        pass

    def _failed(self, error: PulsarError) -> None:
        pass

    def _become(self, topics: frozenset[str]) -> None:
        added, removed = topics - self.topics, self.topics - topics
        self.topics = topics
        if added or removed:
            self._callback(sorted(added), sorted(removed))
