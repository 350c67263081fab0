"""What each worker is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bridge.cluster.shared_settings import fingerprint
from bridge.config import Address, Settings, load_text
from bridge.errors import SettingsError
from bridge.node.workers.plan import worker_settings

LISTEN = Address("0.0.0.0", 9092)  # noqa: S104 - nothing listens
LISTENERS = {"listeners": LISTEN.host, "advertised_listeners": "kafka.example"}


def plan(count: int, **kafka: Any) -> list[Settings]:
    values = {"listen": str(LISTEN), "advertised": "kafka.example:9092", **kafka}
    return worker_settings(Settings().with_values(kafka=values), count, {"PLAINTEXT": LISTEN})


def test_each_worker_has_a_name_and_ports_of_its_own() -> None:
    workers = plan(2)
    assert [one.cluster.name for one in workers] == ["kafka.example:9092#0", "kafka.example:9092#1"]
    assert [one.kafka.listen for one in workers] == ["0.0.0.0:9093", "0.0.0.0:9094"]
    assert [one.kafka.advertised for one in workers] == ["kafka.example:9093", "kafka.example:9094"]
    assert {one.http.listen for one in workers} == {"127.0.0.1:0"}
    assert len({one.http.token for one in workers} - {""}) == 2
    assert [one.kafka.node_id for one in workers] == [-1, -1]


def test_ids_that_are_set_go_up_from_the_one_that_is_set() -> None:
    assert [one.kafka.node_id for one in plan(2, node_id=10)] == [10, 11]


def test_a_name_that_is_set_is_kept() -> None:
    settings = Settings().with_values(cluster={"name": "east"})
    assert [one.cluster.name for one in worker_settings(settings, 2, {"PLAINTEXT": Address("127.0.0.1", 9092)})] == [
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
        worker_settings(settings, 2, {"PLAINTEXT": Address("127.0.0.1", 9092)})


@pytest.mark.parametrize(
    ("first", "said"),
    [(9091, "kafka.listen has 9092"), (7091, "http.listen has 7092"), (65_535, "65535 to 65536, above 65535")],
)
def test_ports_that_cannot_be_had_are_told(first: int, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        plan(2, worker_port=first)


def test_workers_may_have_any_free_ports() -> None:
    assert [one.kafka.listen for one in plan(2, worker_port=0)] == ["0.0.0.0:0"] * 2


def test_workers_and_a_bridge_alone_do_not_find_that_their_settings_differ() -> None:
    alone = Settings()
    assert {fingerprint(one) for count in (2, 8) for one in plan(count)} == {fingerprint(alone)}


def test_a_listener_with_a_name_is_each_worker_s_own(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.touch()
    listeners = {name: f"SASL_PLAINTEXT://{host}:9092" for name, host in LISTENERS.items()}
    settings = Settings().with_values(
        kafka={**listeners, "workers": 2}, listener={"SASL_PLAINTEXT": {"max_connections": 7}},
        security={"password_file": str(users)},
    )  # fmt: skip
    workers = worker_settings(settings, 2, {"SASL_PLAINTEXT": LISTEN})
    assert [one.kafka.listeners for one in workers] == [f"SASL_PLAINTEXT://0.0.0.0:{port}" for port in (9093, 9094)]
    for one, port in zip(workers, (9093, 9094), strict=True):
        (listener,) = load_text(one.to_toml()).listeners
        assert listener.told(port) == Address("kafka.example", port)
        assert (listener.settings.max_connections, listener.mechanisms) == (7, ("SCRAM-SHA-256", "SCRAM-SHA-512"))


def several(**tables: dict[str, int]) -> dict[str, list[int]]:
    """The ports of three workers by listener: of INSIDE, OUTSIDE and LAST."""
    names = ("INSIDE", "OUTSIDE", "LAST")
    settings = Settings().with_values(
        kafka={
            "listeners": ",".join(f"{name}://127.0.0.1:{9092 - at}" for at, name in enumerate(names)),
            "listener_security_protocol_map": ",".join(f"{name}:PLAINTEXT" for name in names),
            "advertised_listeners": "OUTSIDE://kafka.example:443",
        },
        listener=tables,
    )
    shared = {one.name: one.listen for one in settings.listeners}
    workers = worker_settings(settings, 3, shared)
    told = {str(one.told(0)).rpartition(":")[0] for worker in workers for one in worker.listeners}
    assert told == {"127.0.0.1", "kafka.example"}
    return {name: [worker.listeners[at].listen.port for worker in workers] for at, name in enumerate(names)}


def test_each_listener_has_a_port_for_each_worker_one_listener_after_another() -> None:
    assert several() == {"INSIDE": [9093, 9094, 9095], "OUTSIDE": [9096, 9097, 9098], "LAST": [9099, 9100, 9101]}


def test_a_listener_may_have_ports_of_its_own() -> None:
    found = several(OUTSIDE={"worker_port": 9200})
    assert found == {"INSIDE": [9093, 9094, 9095], "OUTSIDE": [9200, 9201, 9202], "LAST": [9096, 9097, 9098]}


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (9093, r"listener.OUTSIDE.worker_port = 9093: .* 9093 to 9095, of which the workers' INSIDE has 9093"),
        (9089, r"of which OUTSIDE of kafka.listeners has 9091"),
        (7091, r"of which http.listen has 7092"),
        (65_534, r"65534 to 65536, above 65535"),
    ],
)
def test_ports_of_listeners_do_not_meet(first: int, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        several(OUTSIDE={"worker_port": first})
