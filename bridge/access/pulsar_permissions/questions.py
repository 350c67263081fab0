"""Which rights in Pulsar stand for an operation of Kafka: a table. It knows no connection and no clock."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from bridge.pulsar.role_probe import Right
from bridge.security.acls import Operation, Resource, ResourceType
from bridge.storage.names import Names, is_shown

MAX_SUBSCRIPTION_CHARS: Final = 1024
MAX_MADE: Final = 20_000
_LONGEST: Final = 249


class Question(NamedTuple):
    """Whether a role has a right to a topic, through a subscription, or to the topic's namespace."""

    right: Right
    topic: str
    """Its full name in Pulsar."""
    subscription: str = ""


Need = Sequence[Sequence[Question]]
"""Each of these must be met, and is by any one question of it."""

NOTHING: Final[Need] = ()
NEVER: Final[Need] = ((),)
"""For super users alone."""


class AskedPlace:
    """A namespace, and in it a partitioned topic that stays and has no permissions of its own.

    A right to that topic is a right to the namespace.
    """

    def __init__(self, namespace: str, existing: str) -> None:
        """`existing`: the topic's local name."""
        self._names = Names(namespace)
        self.topic = self._names.pulsar(existing)
        create = (Question(Right.CREATE, self.topic),)
        delete = (Question(Right.DELETE, self.topic),)
        self._list = Question(Right.LIST, self.topic)
        self._administer: Need = (create, delete)
        self._made: dict[tuple[Operation, str], Need] = {}
        """Of topics: they are asked for with each request."""
        self._of_topic: dict[Operation, Need] = {
            Operation.CREATE: (create,),
            Operation.DELETE: (delete,),
            Operation.ALTER: self._administer,
            Operation.ALTER_CONFIGS: self._administer,
            Operation.DESCRIBE_CONFIGS: (create,),
        }
        self._of_cluster: dict[Operation, Need] = {
            Operation.CREATE: (create,),
            Operation.DESCRIBE: self._administer,
            Operation.DESCRIBE_CONFIGS: self._administer,
            # the right to write to a topic is asked for when it is written to (KIP-679)
            Operation.IDEMPOTENT_WRITE: NOTHING,
        }

    def needs(self, operation: Operation, resource: Resource, topics: Sequence[str] = ()) -> Need:
        """What a role needs for it; `topics`: full names of those that it may consume from by name."""
        if resource.type is ResourceType.TOPIC:
            key = operation, resource.name
            found = self._made.get(key)
            if found is None:
                if len(self._made) >= MAX_MADE:
                    self._made.clear()
                found = self._needs_of_topic(operation, resource.name)
                if len(resource.name) <= _LONGEST:
                    self._made[key] = found
            return found
        if resource.type is ResourceType.GROUP:
            return self._needs_of_group(operation, resource.name, topics)
        if resource.type is ResourceType.CLUSTER:
            return self._of_cluster.get(operation, NEVER)
        if resource.type is ResourceType.TRANSACTIONAL_ID and operation in (Operation.WRITE, Operation.DESCRIBE):
            return ((Question(Right.PRODUCE, self.topic),),)
        return NEVER

    def _needs_of_topic(self, operation: Operation, name: str) -> Need:
        if not is_shown(name):
            return NEVER  # nor is there such a topic for any client
        topic = self._names.pulsar(name)
        if operation is Operation.READ:
            return ((Question(Right.CONSUME, topic),),)
        if operation is Operation.WRITE:
            return ((Question(Right.PRODUCE, topic),),)
        if operation is Operation.DESCRIBE:
            return ((self._list, Question(Right.LOOK_UP, topic)),)
        return self._of_topic.get(operation, NEVER)

    def _needs_of_group(self, operation: Operation, group: str, topics: Sequence[str]) -> Need:
        """A group is a subscription: for who may consume through it, from all topics or from one."""
        if operation in (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS):
            return self._administer
        if operation not in (Operation.READ, Operation.DESCRIBE, Operation.DELETE):
            return NEVER
        if not 0 < len(group) <= MAX_SUBSCRIPTION_CHARS or not group.isprintable():
            return NEVER
        return (tuple(Question(Right.CONSUME, topic, group) for topic in (self.topic, *topics)),)
