"""Every module has a test file of its own name, or stands in the table of the file that covers it.

The APIs have a table of their own: `tests/apis/test_where_tests_are.py`.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.support.sources import ROOT, python_files

TESTS = Path(__file__).parent

COVERED_BY = {
    "test_check.py": {
        "check/facts", "check/files", "check/findings", "check/fit", "check/hosts", "check/nodes", "check/policies",
        "check/remedies", "check/state_namespace", "check/table", "check/tenants",
    },
    "pulsar_secured/test_state.py": {"check/state_access"},
    "test_cli.py": {"__main__", "event_loop", "usage"},
    "test_config.py": {"config/loading", "config/pulsar", "config/rules", "config/sections", "config/security"},
    "http/test_access.py": {"config/http"},
    "security/test_scram.py": {"security/scram_messages"},
    "security/test_token_issuer.py": {"config/token_issuers"},
    "http/test_server.py": {"http/response", "http1"},
    "test_nodes.py": {"cluster/description"},
    "test_metrics.py": {
        "exposition/exposition", "exposition/of_clients", "exposition/of_pulsar", "exposition/of_server",
        "exposition/simple", "exposition/texts", "instruments", "levels",
    },
    "test_startup.py": {"server"},
    "status/test_node.py": {
        "groups/summary", "pulsar/connection/delay", "status/clients", "status/cluster", "status/groups",
        "status/sources", "status/topics",
    },
    "workers/test_supervisor.py": {
        "workers/http_get", "workers/overview", "workers/worker", "workers/worker_process",
    },
    "test_api.py": {"errors"},
    "cluster/test_member.py": {"cluster/kept_producer", "cluster/probes", "cluster/topics"},
    "cluster/test_record_format.py": {"cluster/record_fields", "cluster/records"},
    "cluster/test_simulation.py": {"cluster/effects", "cluster/planning", "cluster/timing"},
    "cluster/test_view_log.py": {"cluster/view"},
    "codec/test_kafka_python.py": {"codec/_records"},
    "codec/test_round_trip.py": {"codec/_messages"},
    "codec/test_twins.py": {"codec/_listing", "codec/_python", "codec/types"},
    "connection/test_client.py": {
        "connection/environment", "connection/listener", "connection/owner", "connection/parts",
        "connection/responses",
    },
    "connection/test_login.py": {"login_outcomes"},
    "test_fetch_waiting.py": {"fetch_answers"},
    "guards/test_table.py": {"guards/guard", "guards/of_cluster", "guards/of_groups", "guards/of_topics"},
    "groups/classic/test_state.py": {
        "groups/classic/answers", "groups/classic/effects", "groups/classic/events", "groups/classic/facts",
        "groups/classic/validation",
    },
    "groups/classic/test_state_members.py": {"groups/classic/members", "groups/classic/sessions"},
    "groups/consumer/test_state.py": {"groups/consumer/model"},
    "groups/store/test_store_contract.py": {"groups/store/saving", "groups/store/stored_groups"},
    "kafka/test_message.py": {"kafka/primitives", "kafka/reading", "kafka/schema", "kafka/writing"},
    "kafka/test_own_codecs.py": {
        "kafka/fetch_messages", "kafka/fetch_wire", "kafka/leader_hints", "kafka/produce_wire",
    },
    "owned_log/test_contract.py": {
        "owned_log/dependencies", "owned_log/errors", "owned_log/eviction", "owned_log/holding",
        "owned_log/slot_reader",
    },
    "relay/test_shared_address.py": {"relay/relaying", "relay/sockets"},
    "pulsar/admin/test_admin.py": {"pulsar/admin/rest"},
    "pulsar/connection/test_broker_connection.py": {
        "pulsar/auth/session_login", "pulsar/connection/connection_handler", "pulsar/connection/context",
        "pulsar/connection/frame_writer",
    },
    "pulsar/consumer/test_consumer.py": {
        "pulsar/consumer/entry_fetch", "pulsar/consumer/flow_control", "pulsar/consumer/reader",
        "pulsar/consumer/subscription",
    },
    "pulsar/producer/test_producer.py": {"pulsar/connection/reconnecting", "pulsar/producer/send"},
    "pulsar_secured/test_identity.py": {"pulsar_permissions/fitness", "pulsar_permissions/token_key"},
    "pulsar_secured/test_role_probe.py": {"pulsar/role_name", "pulsar/role_probe"},
    "pulsar_secured/test_permissions.py": {"pulsar_permissions/token_login"},
    "pulsar/test_client.py": {"pulsar/auth/access", "pulsar/topic_watch"},
    "standalone/test_children.py": {"standalone/child", "standalone/guard"},
    "standalone/test_command.py": {"standalone/bridge_process", "standalone/demo", "standalone/probe"},
    "standalone/test_cluster.py": {"standalone/cluster_plan", "standalone/cluster_programs"},
    "standalone/test_process.py": {"standalone/jvm"},
    "standalone/test_places.py": {"standalone/datadir", "standalone/ports", "standalone/tools"},
    "schedules/test_deduplication.py": {"storage/append/deduplication"},
    "schedules/test_leader_checks.py": {"leadership"},
    "schedules/test_racks.py": {"preferred_replicas"},
    "storage/append/test_preparation.py": {"codec/packing"},
    "storage/append/test_idempotence.py": {
        "storage/append/duplicates", "storage/append/missing_batches", "storage/append/writers",
    },
    "storage/test_partition.py": {
        "storage/append/append_listener", "storage/append/appender", "storage/append/holes",
        "storage/append/pending_append", "storage/read/chunks", "storage/read/search", "storage/services",
    },
    "storage/read/test_log_reader.py": {"storage/read/tail_owner"},
    "storage/read/test_tail.py": {"storage/read/log_end"},
    "apis/test_fetch.py": {"fetch_partitions"},
    "storage/topics/test_configs.py": {"storage/topics/config_table"},
    "storage/topics/test_topics.py": {
        "storage/topics/administration", "storage/topics/partition_logs", "storage/topics/topic",
        "storage/topics/topic_lookup",
    },
    "apis/test_describe_configs.py": {"storage/topics/broker_configs", "storage/topics/namespace_defaults"},
    "apis/test_alter_configs.py": {"storage/topics/topic_policies"},
}  # fmt: skip
"""The modules that have no test file of their own, by the file to look at first and to add to."""


def modules() -> set[str]:
    """All modules of the bridge that hold code, but the APIs."""
    paths = (path.relative_to(ROOT / "bridge") for path in python_files("bridge"))
    return {str(path.with_suffix("")) for path in paths if path.name != "__init__.py" and path.parts[0] != "apis"}


def own_test(module: str) -> Path:
    path = TESTS / module
    return path.with_name(f"test_{path.name}.py")


def test_each_module_has_its_own_file_or_stands_in_one_table() -> None:
    own = {module for module in modules() if own_test(module).exists()}
    covered = Counter(module for names in COVERED_BY.values() for module in names)
    assert not {module for module, times in covered.items() if times > 1 or module in own}
    assert not modules() - own - set(covered), "add a test file, or the module to the table"
    assert not set(covered) - modules(), "there is no such module"


def test_the_files_of_the_table_are_there() -> None:
    assert not {name for name in COVERED_BY if not (TESTS / name).is_file()}
