"""Which node each request has to go to: how a request is divided by owners, and how their answers are put together."""

import copy
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from bridge.apis import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    delete_records,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import with_defaults


class Owners(Protocol):
    """Who has what; `NO_NODE` where that is not known."""

    def of_group(self, group_id: str) -> int:
        """The node that has a group's slot."""

    def of_partition(self, topic: str, partition: int) -> int:
        """The node that leads a partition, though all serve it."""

    def all(self) -> Sequence[int]:
        """Every node."""


class Route(Protocol):
    """One API's."""

    def divided(self, request: Any, owners: Owners) -> Mapping[int, Any]:
        """The request of each owner."""

    def put_together(self, request: Any, answers: Sequence[Any]) -> Any:
        """The answer to `request` from those of the owners."""

    def refusal(self, request: Any, version: int, code: ErrorCode) -> Any:
        """The answer to a request that its owner cannot be asked; KafkaError where the error is the whole answer."""


class OfGroup:
    """A request about one group."""

    def divided(self, request: Any, owners: Owners) -> Mapping[int, Any]:
        """It goes to its group's coordinator."""
        return {owners.of_group(request.group_id): request}

    def put_together(self, request: Any, answers: Sequence[Any]) -> Any:
        """There is one."""
        return answers[0]

    def refusal(self, request: Any, version: int, code: ErrorCode) -> Any:
        """The error is the whole answer."""
        raise KafkaError(code)


class OffsetCommits(OfGroup):
    """OffsetCommit has errors of partitions only."""

    def refusal(self, request: offset_commit.Request, version: int, code: ErrorCode) -> offset_commit.Response:
        """The error in every partition."""
        return offset_commit.Response(
            topics=[
                offset_commit.ResponseTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        offset_commit.ResponsePartition(partition_index=one.partition_index, error_code=code)
                        for one in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )


class OfGroups:
    """A request about several groups."""

    def __init__(self, asked: str, answered: str, response: type[Any], element: type[Any]) -> None:
        """`asked`, `answered`: the arrays of the request and of the response; `element`: one of the latter."""
        self._asked, self._answered, self._response, self._element = asked, answered, response, element

    def divided(self, request: Any, owners: Owners) -> Mapping[int, Any]:
        """Each coordinator gets its groups."""
        groups: defaultdict[int, list[Any]] = defaultdict(list)
        for one in getattr(request, self._asked):
            groups[owners.of_group(_id_of(one))].append(one)
        if len(groups) <= 1:
            return dict.fromkeys(groups or owners.all()[:1], request)
        parts = {owner: copy.copy(request) for owner in groups}
        for owner, part in parts.items():
            setattr(part, self._asked, groups[owner])
        return parts

    def put_together(self, request: Any, answers: Sequence[Any]) -> Any:
        """All groups, in the order of the request."""
        first = answers[0]
        if len(answers) > 1:
            found: defaultdict[str, deque[Any]] = defaultdict(deque)
            for answer in answers:
                for one in getattr(answer, self._answered):
                    found[one.group_id].append(one)
            order = [_id_of(one) for one in getattr(request, self._asked)]
            setattr(first, self._answered, [found[one].popleft() for one in order if found[one]])
        return first

    def refusal(self, request: Any, version: int, code: ErrorCode) -> Any:
        """The error in every group."""
        ids = map(_id_of, getattr(request, self._asked))
        refused = [with_defaults(self._element, group_id=one, error_code=int(code)) for one in ids]
        return with_defaults(self._response, **{self._answered: refused})


class OffsetFetches:
    """OffsetFetch is about one group before v8, and about several since."""

    def __init__(self) -> None:
        self._one = OfGroup()
        self._several = OfGroups("groups", "groups", offset_fetch.Response, offset_fetch.ResponseGroup)

    def _which(self, request: offset_fetch.Request) -> OfGroup | OfGroups:
        return self._several if request.groups else self._one

    def divided(self, request: offset_fetch.Request, owners: Owners) -> Mapping[int, Any]:
        """As its groups."""
        return self._which(request).divided(request, owners)

    def put_together(self, request: offset_fetch.Request, answers: Sequence[Any]) -> Any:
        """As its groups."""
        return self._which(request).put_together(request, answers)

    def refusal(self, request: offset_fetch.Request, version: int, code: ErrorCode) -> Any:
        """In the groups; before v8 in the answer, before v2 in the partitions, the only place for it."""
        if request.groups or version >= offset_fetch.TOP_LEVEL_ERROR:
            return self._which(request).refusal(request, version, code)
        return offset_fetch.Response(
            topics=[
                offset_fetch.ResponseTopic(
                    name=topic.name,
                    partitions=[
                        offset_fetch.ResponsePartition(partition_index=one, committed_offset=-1, error_code=code)
                        for one in topic.partition_indexes
                    ],
                )
                for topic in request.topics or ()
            ]
        )


class RecordDeletions:
    """DeleteRecords: the leader of a partition alone raises its start."""

    def divided(self, request: delete_records.Request, owners: Owners) -> Mapping[int, Any]:
        """Each leader gets its partitions."""
        wanted: defaultdict[int, list[delete_records.RequestTopic]] = defaultdict(list)
        for topic in request.topics:
            of_topic: defaultdict[int, list[delete_records.RequestPartition]] = defaultdict(list)
            for one in topic.partitions:
                of_topic[owners.of_partition(topic.name, one.partition_index)].append(one)
            for owner, partitions in of_topic.items():
                wanted[owner].append(delete_records.RequestTopic(name=topic.name, partitions=partitions))
        if len(wanted) <= 1:
            return dict.fromkeys(wanted or owners.all()[:1], request)
        timeout = request.timeout_ms
        return {owner: delete_records.Request(topics=topics, timeout_ms=timeout) for owner, topics in wanted.items()}

    def put_together(self, request: delete_records.Request, answers: Sequence[Any]) -> Any:
        """All partitions, in the order of the request."""
        first: delete_records.Response = answers[0]
        if len(answers) > 1:
            found: dict[tuple[str, int], delete_records.ResponsePartition] = {
                (topic.name, one.partition_index): one
                for answer in answers
                for topic in answer.topics
                for one in topic.partitions
            }
            first.topics = [
                delete_records.ResponseTopic(
                    name=topic.name,
                    partitions=[
                        found[topic.name, one.partition_index]
                        for one in topic.partitions
                        if (topic.name, one.partition_index) in found
                    ],
                )
                for topic in request.topics
            ]
        return first

    def refusal(self, request: delete_records.Request, version: int, code: ErrorCode) -> delete_records.Response:
        """The error in every partition: that of a leader, not of a coordinator."""
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return delete_records.Response(
            topics=[
                delete_records.ResponseTopic(
                    name=topic.name,
                    partitions=[
                        delete_records.ResponsePartition(partition_index=one.partition_index, error_code=error)
                        for one in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )


class GroupLists:
    """ListGroups: every node lists its own."""

    def divided(self, request: Any, owners: Owners) -> Mapping[int, Any]:
        """All are asked the same."""
        return dict.fromkeys(owners.all(), request)

    def put_together(self, request: Any, answers: Sequence[list_groups.Response]) -> list_groups.Response:
        """The lists of all; an error if one is missing."""
        errors = [answer.error_code for answer in answers if answer.error_code]
        groups = [group for answer in answers for group in answer.groups]
        return list_groups.Response(error_code=errors[0] if errors else ErrorCode.NONE, groups=groups)

    def refusal(self, request: Any, version: int, code: ErrorCode) -> list_groups.Response:
        """A list that cannot be had."""
        return list_groups.Response(error_code=code, groups=[])


def _id_of(asked: Any) -> str:
    """The id of a group that is asked for, which some APIs ask for by its id alone."""
    return asked if isinstance(asked, str) else str(asked.group_id)


_OF_GROUP = OfGroup()
ROUTES: Mapping[int, Route] = {
    api.key: route
    for api, route in (
        (join_group.API, _OF_GROUP),
        (sync_group.API, _OF_GROUP),
        (heartbeat.API, _OF_GROUP),
        (leave_group.API, _OF_GROUP),
        (consumer_group_heartbeat.API, _OF_GROUP),
        (offset_delete.API, _OF_GROUP),
        (offset_commit.API, OffsetCommits()),
        (offset_fetch.API, OffsetFetches()),
        (describe_groups.API, OfGroups("groups", "groups", describe_groups.Response, describe_groups.Group)),
        (
            consumer_group_describe.API,
            OfGroups("group_ids", "groups", consumer_group_describe.Response, consumer_group_describe.Group),
        ),
        (delete_groups.API, OfGroups("groups_names", "results", delete_groups.Response, delete_groups.Result)),
        (list_groups.API, GroupLists()),
        (delete_records.API, RecordDeletions()),
    )
}
"""By API key."""
