"""Watches which topics of a namespace are created and deleted (PIP-145)."""

from collections.abc import Callable, Sequence

from bridge.pulsar import commands
from bridge.pulsar.connection.broker_connection import BrokerConnection
from bridge.pulsar.connection.context import ClientContext
from bridge.pulsar.connection.reconnecting import ReconnectingHandler
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import PulsarError

Callback = Callable[[Sequence[str], Sequence[str]], None]


class TopicWatch(ReconnectingHandler):
    """Made by `PulsarClient.watch_topics`; after a reconnect the difference to what was known is told."""

    def __init__(self, namespace: str, callback: Callback, context: ClientContext) -> None:
        super().__init__("watch", namespace, context)
        self.topics: frozenset[str] = frozenset()
        self._callback = callback
        self._id = 0
        self._start()

    async def close(self) -> None:
        """Stop watching."""
        connection = await self._stop("the watch")
        if connection is not None:
            self._close_session(connection)

    def changed(self, update: pb.CommandWatchTopicUpdate) -> None:
        """The broker tells of topics."""
        self._set_topics((self.topics | set(update.new_topics)) - set(update.deleted_topics))

    async def _attach(self) -> BrokerConnection:
        connection = await self._context.pool.service()
        self._id = next(self._context.ids)
        connection.watches[self._id] = self
        try:
            answer = await connection.request(
                lambda request_id: commands.watch_topic_list(
                    request_id, self._id, self.topic, f"persistent://{self.topic}/.*"
                )
            )
        except BaseException:
            self._close_session(connection)
            raise
        self._set_topics(frozenset(answer.watch_topic_list_success.topic))
        return connection

    def _close_session(self, connection: BrokerConnection) -> None:
        watcher = self._id
        if connection.watches.pop(watcher, None) is not None:
            connection.notify(lambda request_id: commands.watch_topic_list_close(request_id, watcher))

    def _is_open_on(self, connection: BrokerConnection) -> bool:
        return connection.watches.get(self._id) is self

    def _attached(self, connection: BrokerConnection) -> None:
        pass

    def _failed(self, error: PulsarError) -> None:
        pass

    def _set_topics(self, topics: frozenset[str]) -> None:
        added, removed = topics - self.topics, self.topics - topics
        self.topics = topics
        if added or removed:
            self._callback(sorted(added), sorted(removed))
