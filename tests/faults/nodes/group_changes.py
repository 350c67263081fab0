"""Groups that come and go while nodes do: each reads, commits, is asked for its offsets, and is deleted or kept."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from bridge.apis import delete_groups, describe_groups, offset_fetch
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.api import Api
from tests.apis.wire import ask_at
from tests.faults.nodes.answers import cluster_at, coordinator_at
from tests.faults.nodes.changes import RETRIED, UNTIL_SECONDS, Stage
from tests.faults.processes import let_pass
from tests.faults.topics import consumer

_SESSION_MS = 6_000
"""Of one whose last words are lost with its coordinator: each node that gets the group waits for so long again."""


class Groups:
    """Groups read a topic, commit, and are deleted or kept."""

    def __init__(self, stage: Stage, topic: str, partitions: int) -> None:
        self.kept: dict[str, dict[int, int]] = {}
        """The committed offsets of those that live at the end."""
        self._stage = stage
        self._topic = topic
        self._partitions = partitions

    def change(self, actor: str) -> None:
        """One group after the other; one in three has a name that was there before."""
        stage, choices = self._stage, self._stage.choices(actor)
        number = 0
        while not stage.ended.is_set():
            number += choices.random() < 0.7
            group = f"{stage.prefix}-{actor}-{number}"
            if group in self.kept:
                continue
            stage.pollers.deleted_groups.pop(group, None)
            committed = self._read_and_commit(choices, group)
            told = self.committed(choices, group)
            assert committed == told, f"{group} committed {committed}, told is {told}"
            if choices.random() < 0.25:
                self.kept[group] = committed
                continue
            self._delete(choices, group)
            told = self.committed(choices, group)
            assert not told, f"{group} is deleted, and has offsets: {told}"

    def committed(self, choices: random.Random, group: str) -> dict[int, int]:
        """What the coordinator that any node names tells of the group's offsets."""
        request = offset_fetch.Request(groups=[offset_fetch.RequestGroup(group_id=group, topics=None)])
        answer = self._of_coordinator(
            choices, group, offset_fetch.API, request, lambda answer: answer.groups[0].error_code, 9
        )
        (found,) = answer.groups
        assert found.error_code == ErrorCode.NONE, found
        return {
            one.partition_index: one.committed_offset
            for topic in found.topics
            for one in topic.partitions
            if one.committed_offset >= 0
        }

    def state(self, group: str) -> str:
        """What each node that is up tells of a group and its topic."""
        told = []
        for node in self._stage.running():
            try:
                coordinator = coordinator_at(node.kafka, group)
                request = describe_groups.Request(groups=[group])
                described = ask_at(coordinator, describe_groups.API, request) if coordinator else None
                leaders = cluster_at(node.kafka, [self._topic]).leaders
                told.append(f"{node.name} {node.kafka}: {coordinator} coordinates: {described}; leaders {leaders}")
            except (OSError, struct.error) as error:
                told.append(f"{node.name} {node.kafka}: {error!r}")
        return "\n".join(told)

    def _read_and_commit(self, choices: random.Random, group: str) -> dict[int, int]:
        member = consumer(self._stage.bootstrap(choices), "earliest", group=group, session_ms=_SESSION_MS)
        try:
            member.subscribe([self._topic])
            wanted = self._read(member, group, choices.randint(1, 20))
            self._commit(member, wanted)
        finally:
            member.close()
        self._stage.count("committed")
        return wanted

    def _read(self, member: Consumer, group: str, count: int) -> dict[int, int]:
        """The next offset of each partition that was read; librdkafka tells of a coordinator that goes, and goes on."""
        until = time.monotonic() + UNTIL_SECONDS
        found: dict[int, int] = {}
        errors: list[str] = []
        while not found:
            assert time.monotonic() < until, f"{group} reads nothing: {errors}\n{self.state(group)}"
            for one in member.consume(count, 1):
                partition, offset, error = one.partition(), one.offset(), one.error()
                if error is None:
                    assert partition is not None and offset is not None
                    assert offset >= found.get(partition, 0), f"{group} reads {partition}/{offset} twice"
                    found[partition] = offset + 1
                else:
                    assert not error.fatal(), error
                    errors.append(str(error))
        return found

    def _commit(self, member: Consumer, offsets: dict[int, int]) -> None:
        """Commit until it is acknowledged: it may meet a rebalance or a coordinator that goes."""
        until = time.monotonic() + UNTIL_SECONDS
        places = [TopicPartition(self._topic, partition, offset) for partition, offset in offsets.items()]
        while True:
            try:
                done = member.commit(offsets=places, asynchronous=False)
                if done is not None and all(one.error is None for one in done):
                    return
            except KafkaException as error:
                assert time.monotonic() < until, f"not committed: {error}"
            member.consume(1, 0.2)

    def _delete(self, choices: random.Random, group: str) -> None:
        request = delete_groups.Request(groups_names=[group])
        answer = self._of_coordinator(
            choices, group, delete_groups.API, request, lambda answer: answer.results[0].error_code
        )
        (result,) = answer.results
        # one that was asked before may have deleted it
        assert result.error_code in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND), result
        self._stage.pollers.deleted_groups[group] = time.monotonic()
        self._stage.count("groups deleted")

    def _of_coordinator(
        self,
        choices: random.Random,
        group: str,
        api: Api,
        request: Any,
        code_of: Callable[[Any], int],
        version: int | None = None,
    ) -> Any:
        until = time.monotonic() + UNTIL_SECONDS
        code = 0
        while True:
            try:
                address = coordinator_at(choices.choice(self._stage.running()).kafka, group)
                if address:
                    answer = ask_at(address, api, request, version)
                    code = code_of(answer)
                    if code not in (*RETRIED, ErrorCode.NON_EMPTY_GROUP):
                        return answer
            except (OSError, struct.error):
                pass
            assert time.monotonic() < until, f"no coordinator of {group} answers {request}, the last with {code}"
            let_pass(0.1)
