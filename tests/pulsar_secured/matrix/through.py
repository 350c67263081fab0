"""What a bridge lets a client do, by raw requests: one connection for each principal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bridge.apis import (
    create_acls,
    create_topics,
    delete_groups,
    delete_topics,
    fetch,
    find_coordinator,
    metadata,
    offset_commit,
    produce,
)
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.api import Api
from bridge.security.acls import CLUSTER_NAME, Operation, ResourceType
from tests.apis.wire import Connection, unique
from tests.clients.model import attempts
from tests.clients.refusals import batches, groups, offsets, records, topics
from tests.pulsar_secured.matrix.cells import ALL, RIGHTS
from tests.tenants.world import logged_in

TOPIC = "orders"
_MISSING = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,)
_ENTRIES: dict[str, list[tuple[ResourceType, Operation]]] = {
    "produce": [(ResourceType.TOPIC, Operation.WRITE)],
    "consume": [(ResourceType.TOPIC, Operation.READ), (ResourceType.GROUP, Operation.DELETE)],
    "both": [
        (ResourceType.TOPIC, Operation.WRITE), (ResourceType.TOPIC, Operation.READ),
        (ResourceType.GROUP, Operation.DELETE),
    ],
    "admin": [(kind, Operation.ALL) for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER)],
}  # fmt: skip


class Through:
    """A bridge, as its super user sees it, with a topic that has a record."""

    def __init__(self, address: str, keeper: tuple[str, str]) -> None:
        """`keeper`: name and password of the super user."""
        self._address = address
        self._keeper = logged_in(address, *keeper)
        for _ in attempts("a coordinator"):
            found = self._keeper.ask(find_coordinator.API, groups.find("g"))
            if found.coordinators[0].error_code == ErrorCode.NONE:
                break
        self._make_topic(TOPIC)

    def close(self) -> None:
        """Hang up."""
        self._keeper.close()

    def grant(self) -> None:
        """Give Kafka's entries that are like the rights."""
        wanted = [
            create_acls.Creation(
                resource_type=kind, resource_name=CLUSTER_NAME if kind is ResourceType.CLUSTER else "*",
                resource_pattern_type=3, principal=f"User:{RIGHTS[right]}", host="*", operation=operation,
                permission_type=3,
            )
            for right, entries in _ENTRIES.items()
            for kind, operation in entries
        ]  # fmt: skip
        results = self._keeper.ask(create_acls.API, create_acls.Request(creations=wanted)).results
        assert not [one for one in results if one.error_code]

    def may(self, name: str, password: str) -> str:
        """The letters of what the principal may do."""
        with logged_in(self._address, name, password) as client:
            return "".join(letter for letter in ALL if self._does(letter, client))

    def _does(self, letter: str, client: Connection) -> bool:
        if letter == "L":
            asked = metadata.Request(topics=None, allow_auto_topic_creation=False)
            return TOPIC in [one.name for one in client.ask(metadata.API, asked).topics]
        api, request, codes = self._request(letter)
        return self._told(client, api, request, codes) == ErrorCode.NONE

    def _request(self, letter: str) -> tuple[Api, Any, Any]:
        if letter == "P":
            wanted = records.write(TOPIC, batches.plain())
            return produce.API, wanted, lambda a: [one.error_code for one in a.responses[0].partition_responses]
        if letter == "F":
            # version 12 and older name topics
            return fetch.API, records.read(TOPIC), lambda a: [one.error_code for one in a.responses[0].partitions]
        name = unique("t")
        if letter == "C":
            return create_topics.API, topics.create(name), _of_topics
        if letter == "D":
            self._make_topic(name)
            return delete_topics.API, topics.delete(name), lambda a: [one.error_code for one in a.responses]
        self._told(self._keeper, offset_commit.API, offsets.commit(name, TOPIC), _of_partitions, _MISSING)
        return delete_groups.API, delete_groups.Request(groups_names=[name]), lambda a: [a.results[0].error_code]

    def _make_topic(self, name: str) -> None:
        assert self._told(self._keeper, create_topics.API, topics.create(name), _of_topics) == ErrorCode.NONE
        api, request, codes = produce.API, records.write(name, batches.plain()), _of_records
        assert self._told(self._keeper, api, request, codes, _MISSING) == ErrorCode.NONE

    def _told(
        self, client: Connection, api: Api, request: Any, codes: Any, passing: Iterable[ErrorCode] = ()
    ) -> ErrorCode:
        """The error, once it is none that a client tries again after."""
        versions = {fetch.API.key: 12, offset_commit.API.key: 9}
        for _ in attempts(api.name):
            (code,) = {ErrorCode(one) for one in codes(client.ask(api, request, versions.get(api.key)))}
            if not (code.retriable and code not in _MISSING) and code not in passing:
                return code
        raise AssertionError(api.name)


def _of_records(answer: Any) -> list[int]:
    return [one.error_code for one in answer.responses[0].partition_responses]


def _of_topics(answer: Any) -> list[int]:
    return [one.error_code for one in answer.topics]


def _of_partitions(answer: Any) -> list[int]:
    return [one.error_code for topic in answer.topics for one in topic.partitions]
