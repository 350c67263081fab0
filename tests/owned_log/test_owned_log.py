"""How a log begins: with the slots that its topic has, whatever process creates that."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bridge.owned_log import OwnedLog, OwnedLogMetrics, OwnedState, owned_log
from bridge.pulsar import Admin, PulsarClient
from bridge.pulsar.admin import AdminError, Conflict, NotFound


class SlowPulsar:
    """Another process creates the topic: a second creation is refused before the topic can be seen."""

    def __init__(self, unseen: int, partitions: int = 5) -> None:
        self.unseen = unseen
        self.created = 0
        self._partitions = partitions

    async def partitioned_metadata(self, topic: str) -> Any:
        if self.unseen:
            self.unseen -= 1
            raise NotFound(404, "Topic not found")
        return SimpleNamespace(partitions=self._partitions, properties={})

    async def create_partitioned(self, topic: str, partitions: int, properties: object = None) -> None:
        self.created += 1
        raise Conflict(409, "This topic already exists")


def log_on(pulsar: SlowPulsar) -> OwnedLog:
    return OwnedLog(
        cast(PulsarClient, None), cast(Admin, pulsar), "persistent://public/default/log", cast(OwnedState, None),
        slots=2, owner="me", compact_after=100, max_pending_bytes=1000, metrics=cast(OwnedLogMetrics, None),
    )  # fmt: skip


@pytest.mark.parametrize("unseen", [0, 1, 2, 4])
async def test_a_topic_that_another_process_creates_just_now_has_its_slots(unseen: int) -> None:
    pulsar = SlowPulsar(unseen)
    log = log_on(pulsar)
    await log.start()
    assert [slot.index for slot in log.slots] == list(range(5))
    assert pulsar.created == unseen


async def test_a_topic_that_never_comes_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log without slots would refuse every group until the node is restarted."""
    monkeypatch.setattr(owned_log, "_CREATED_TIMEOUT", 0.0)
    monkeypatch.setattr(owned_log, "Backoff", lambda: SimpleNamespace(next=lambda: 0.0))
    with pytest.raises(AdminError, match="neither there nor can be created"):
        await asyncio.wait_for(log_on(SlowPulsar(unseen=1_000_000)).start(), 30)
