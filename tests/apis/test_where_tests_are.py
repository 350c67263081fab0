"""Every API has a test file of its own name, or stands in the table of the file that covers its family."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from bridge import apis

TESTS = Path(__file__).parents[1]
MODULES = {path.stem for path in Path(apis.__file__).parent.glob("*.py")} - {"__init__"}

FAMILIES = {
    "apis/test_groups.py": {
        "delete_groups", "describe_groups", "heartbeat", "join_group", "leave_group", "list_groups", "sync_group",
    },
    "apis/test_consumer_groups.py": {"consumer_group_describe", "consumer_group_heartbeat"},
    "apis/test_committed_offsets.py": {"offset_commit", "offset_delete", "offset_fetch"},
    "apis/test_client_quotas.py": {"alter_client_quotas", "describe_client_quotas"},
    "apis/test_acls.py": {"create_acls", "delete_acls"},
    "apis/test_scram_credentials.py": {"alter_user_scram_credentials", "describe_user_scram_credentials"},
    "clients/refusals/cluster.py": {
        "alter_partition_reassignments", "alter_replica_log_dirs", "api_versions", "describe_cluster",
        "describe_quorum", "elect_leaders", "unregister_broker", "update_features",
    },
    "clients/refusals/security.py": {
        "create_delegation_token",
        "describe_delegation_token", "expire_delegation_token",
        "renew_delegation_token", "sasl_authenticate", "sasl_handshake",
    },
    "clients/refusals/topics.py": {"delete_topics"},
    "clients/refusals/transactions.py": {
        "add_offsets_to_txn", "add_partitions_to_txn", "describe_transactions", "end_txn", "init_producer_id",
        "list_transactions", "txn_offset_commit", "write_txn_markers",
    },
}  # fmt: skip
"""The files whose name is not that of one API, and the APIs that have no file of their own. `clients/refusals` has the
requests that are answered with an error, each compared with what a real Kafka answers."""

HELPERS = {"apis/test_groups.py": ("apis/group_bench.py",)}
"""Modules through which a family's file asks some of its APIs."""

ACROSS_APIS = {
    "test_bytes.py": "all APIs: the bytes of their messages",
    "test_committed_offsets_by_topic_id.py": "OffsetCommit and OffsetFetch by topic id, on a real Pulsar",
    "test_coordinator_moves.py": "OffsetFetch, of clients on a real Pulsar as their coordinator moves",
    "test_definitions.py": "all APIs: the fields of their messages",
    "test_departed_brokers.py": "Metadata: brokers that have left, of several views of the cluster",
    "test_internal_topics.py": "Metadata, CreateTopics, Produce and Fetch of Kafka's internal topics",
    "test_listeners.py": "the APIs that tell clients addresses",
    "test_message_sets.py": "Produce, Fetch and ListOffsets in their oldest versions",
    "test_table.py": "all APIs: keys, names and versions",
    "test_two_nodes.py": "the APIs of groups, asked at a node that does not coordinate the group",
    Path(__file__).name: "this",
}
"""Files beside them, about something that several APIs have in common."""


def test_each_api_has_its_own_file_or_stands_in_one_family() -> None:
    own = {module for module in MODULES if (TESTS / "apis" / f"test_{module}.py").exists()}
    families = [module for modules in FAMILIES.values() for module in sorted(modules)]
    assert sorted([*own, *families]) == sorted(MODULES)


@pytest.mark.parametrize("file", FAMILIES)
def test_a_family_s_file_tests_each_api_of_the_family(file: str) -> None:
    text = "".join((TESTS / one).read_text(encoding="utf-8") for one in (file, *HELPERS.get(file, ())))
    used = Counter(re.findall(r"\w+", text))
    assert {module for module in FAMILIES[file] if used[module] < 2} == set(), "imported and used"


def test_there_is_no_other_file() -> None:
    known = {f"test_{module}.py" for module in MODULES} | ACROSS_APIS.keys() | {Path(file).name for file in FAMILIES}
    assert {path.name for path in (TESTS / "apis").glob("test_*.py")} - known == set()
    assert {name for name in ACROSS_APIS if not (TESTS / "apis" / name).exists()} == set()
