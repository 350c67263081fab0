import secrets

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from bench.pipeline import Run, list_offsets, row
from tests.support.bridges import BridgeThread


def test_a_line_judges_the_ratio_of_speeds() -> None:
    slow, fast = [Run(4.0, 8.0, 1.0)] * 3, [Run(2.0, 6.0, 3.0)] * 3
    line = row("scan, 5,000 records a poll", {"bridge": slow, "kafka": fast}, 1_000_000)
    assert line[1:] == ["250", "500", "0.50", "0.80", "NO", "1.0", "3.0", "8.0", "6.0"]
    line = row("replay", {"bridge": fast, "kafka": slow}, 1_000_000)
    assert line[3:6] == ["2.00", "0.70", "yes"]


def test_ends_are_asked_for_one_at_a_time(bridge: BridgeThread) -> None:
    topic = f"bench-{secrets.token_hex(4)}"
    admin = AdminClient({"bootstrap.servers": bridge.kafka})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    took = list_offsets(bridge.kafka, topic, 20)
    assert len(took) == 20
    assert min(took) > 0
    with pytest.raises(RuntimeError, match="error 3"):
        list_offsets(bridge.kafka, f"{topic}-unknown", 20)
