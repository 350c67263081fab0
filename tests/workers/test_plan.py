"""What each worker is told."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.cluster.shared_settings import fingerprint
from bridge.config import Address, Settings
from bridge.errors import SettingsError
from bridge.workers.plan import worker_settings

LISTEN = Address("0.0.0.0", 9092)  # noqa: S104 - nothing listens


def plan(count: int, **kafka: Any) -> list[Settings]:
    values = {"listen": str(LISTEN), "advertised": "kafka.example:9092", **kafka}
    return worker_settings(Settings().with_values(kafka=values), count, LISTEN)


def test_each_worker_has_a_name_and_ports_of_its_own() -> None:
    workers = plan(2)
    assert [one.cluster.name for one in workers] == ["kafka.example:9092#0", "kafka.example:9092#1"]
    assert [one.kafka.listen for one in workers] == ["0.0.0.0:9093", "0.0.0.0:9094"]
    assert [one.kafka.advertised for one in workers] == ["kafka.example:9093", "kafka.example:9094"]
    assert {one.http.listen for one in workers} == {"127.0.0.1:0"}
    assert [one.kafka.node_id for one in workers] == [-1, -1]


def test_ids_that_are_set_go_up_from_the_one_that_is_set() -> None:
    assert [one.kafka.node_id for one in plan(2, node_id=10)] == [10, 11]


def test_a_name_that_is_set_is_kept() -> None:
    settings = Settings().with_values(cluster={"name": "east"})
    assert [one.cluster.name for one in worker_settings(settings, 2, Address("127.0.0.1", 9092))] == [
        "east#0",
        "east#1",
    ]


def test_budgets_of_memory_are_shared_out() -> None:
    whole = Settings()
    for one in plan(2):
        assert one.kafka.memory_budget_bytes == whole.kafka.memory_budget_bytes // 2
        assert one.storage.cache_bytes == whole.storage.cache_bytes // 2
        assert one.storage.max_catchup_readers == whole.storage.max_catchup_readers // 2
        assert one.groups.max_metadata_bytes == whole.groups.max_metadata_bytes // 2
        assert one.pulsar == whole.pulsar


@pytest.mark.parametrize("count", range(2, 9))
def test_the_defaults_do_for_eight_workers_and_each_takes_the_largest_request(count: int) -> None:
    kafka = Settings().kafka
    expected = max(kafka.memory_budget_bytes // count, kafka.max_request_bytes)
    assert {one.kafka.memory_budget_bytes for one in plan(count)} == {expected}


def test_a_share_of_nothing_is_told() -> None:
    settings = Settings().with_values(storage={"max_catchup_readers": 1})
    with pytest.raises(SettingsError, match=r"storage.max_catchup_readers = 1 is not enough for 2 workers"):
        worker_settings(settings, 2, Address("127.0.0.1", 9092))


@pytest.mark.parametrize(
    ("first", "said"),
    [(9091, "kafka.listen has 9092"), (9307, "http.listen has 9308"), (65_535, "65535 to 65536, above 65535")],
)
def test_ports_that_cannot_be_had_are_told(first: int, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        plan(2, worker_port=first)


def test_workers_may_have_any_free_ports() -> None:
    assert [one.kafka.listen for one in plan(2, worker_port=0)] == ["0.0.0.0:0"] * 2


def test_workers_and_a_bridge_alone_do_not_find_that_their_settings_differ() -> None:
    alone = Settings()
    assert {fingerprint(one) for count in (2, 8) for one in plan(count)} == {fingerprint(alone)}
