"""Metadata of all topics: one that Pulsar tells nothing of does not hide the others."""

from typing import Any

import pytest

from bridge.apis import metadata
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.storage.topics.topics import Topics
from tests.apis.wire import ask
from tests.support.bridges import BridgeThread


def test_a_topic_that_cannot_be_looked_at_does_not_hide_the_others(
    bridge: BridgeThread, written_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics, bad = bridge.server.topics, f"{written_topic}-bad"
    bridge.call(_create_and_forget(topics, bad))
    find = topics._lookup.find

    async def refuse(name: str) -> Any:
        if name == bad:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        return await find(name)

    monkeypatch.setattr(topics._lookup, "find", refuse)
    told = {one.name: one for one in ask(bridge, metadata.API, metadata.Request(topics=None)).topics}
    assert told[written_topic].error_code == ErrorCode.NONE and told[written_topic].partitions
    assert (told[bad].error_code, told[bad].partitions) == (ErrorCode.LEADER_NOT_AVAILABLE, [])


async def _create_and_forget(topics: Topics, name: str) -> None:
    topics.forget(await topics.create(name, 1))
