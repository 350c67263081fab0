"""Deduplication that others turn off: the bridge turns it on again for the topics of idempotent producers."""

from __future__ import annotations

import pytest

from bridge.kafka.error_codes import ErrorCode
from tests.policies.site import Site


def status(site: Site, topic: str) -> str:
    return str(site.of_topic(f"{topic}-partition-0", "stats", method="GET")["deduplicationStatus"])


@pytest.mark.parametrize("level", ["namespace", "topic"])
def test_a_repetition_is_known_although_deduplication_was_off(site: Site, level: str) -> None:
    topic = site.topic()
    if level == "namespace":
        site.set("deduplication", False)
    else:
        site.of_topic(topic, "deduplicationEnabled", False)
    with site.producer() as producer:
        assert producer.produce(topic) == (ErrorCode.NONE, "0")
        assert status(site, topic) == "Enabled"
    with site.producer() as other:
        other.id = producer.id  # on another connection: what this process remembers of it is gone
        assert other.produce(topic, sequence=0)[0] == ErrorCode.NONE
    assert site.bound(topic) == (ErrorCode.NONE, 1)
