"""Kinds of bad input, with what is required of the bridge and what shows it: a scene that is measured, or tests."""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.hostile.scene import Scene
from tests.hostile.scenes import connections, groups, logins, requests, shares, transactions

MIB: Final = 1 << 20
IDLE: Final = 10_000
"""Connections."""


class Row(NamedTuple):
    """One kind of bad input."""

    number: str
    sent: str
    required: str
    scene: Scene | None = None
    tests: tuple[str, ...] = ()
    """Files, or `file::test`, under tests/."""
    memory: int = 64 * MIB
    """By how much the bridge's may grow."""
    logins: bool = False
    """Whether the well-behaved client logs in as well."""


_BUDGET: Final = 256 * MIB  # kafka.memory_budget_bytes: a request is received whole before its records are looked at
_OPENED: Final = 128 * MIB  # what all batches become that are decompressed at a time
_HOSTILE = "fuzz/test_hostile.py"

ROWS: Final = (
    Row("S1", "lengths −1, 0, ±2³¹, 100 MiB + 1", "closed at once", requests.lengths, (_HOSTILE,)),
    Row("S2", "HTTP, SSH, TLS on the port", "closed", requests.other_protocols, (_HOSTILE,)),
    Row("S3", "60 clients claim 100 MiB each, send 1 KB", "memory follows what was received: 16 MiB at most",
        connections.claims, (f"{_HOSTILE}::test_claims_of_many_take_no_memory",), 16 * MIB),
    Row("S4", "counts that lie", "closed", requests.lying_counts, (_HOSTILE, "kafka/test_message.py")),
    Row("S5", "APIs that there are not, ApiVersions v99", "closed; error 35 in v0", requests.unknown_apis, (_HOSTILE,)),
    Row("S6", "topics named `..`, NUL, 32 KB, `persistent://…`, `%2F`", "error 3 or 17; nothing of Pulsar's reached",
        requests.names, (f"{_HOSTILE}::test_names_reach_nothing_outside",)),
    Row("S7", "damaged batches", "none stored, the log's end stays", requests.damaged_batches,
        (f"{_HOSTILE}::test_damaged_batches_are_refused_and_not_stored",), _OPENED),
    Row("S8", "batches that decompress to 256 MiB and 1 GiB, or claim 2 GiB and 1 TiB; 200,000 empty records",
        "refused within 10 s", requests.bombs, ("codec/test_compression.py",), _OPENED),
    Row("S9", "every API before the log-in", "closed", logins.before_login,
        ("connection/test_login.py::test_all_else_before_it_closes_the_connection",)),
    Row("S10", "noise and 512 KiB instead of a log-in", "refused or closed", logins.noise,
        ("security/sasl/test_plain.py", "security/sasl/test_scram.py")),
    Row("S11", "1,000 wrong passwords a second, from one address", "20 looked at, then 10 a second; others log in",
        logins.guesses, ("connection/test_login.py::test_who_guesses_on_is_not_looked_at",), logins=True),
    Row("S11", "1,000 wrong passwords at once, over and over, from one address", "as before",
        logins.guesses_at_once, ("connection/test_login.py::test_who_guesses_on_is_not_looked_at",), logins=True),
    Row("S12", "a token that ends while its client is connected", "logs in again, or is closed within 5 s", tests=(
        "connection/test_login.py::test_at_the_end_of_its_session_a_request_closes_the_connection",
        "connection/test_login.py::test_soon_after_it_the_connection_is_closed_also_without_one",
        "security/test_token_clients.py::test_librdkafka_logs_in_again_before_its_token_ends_and_fails_nothing",
    )),
    Row("S13", "tokens: unsigned, HS256 by the public key, another key, issuer or audience", "refused", tests=(
        "security/test_tokens.py::test_an_unsigned_token_is_refused",
        "security/test_tokens.py::test_a_public_key_is_no_secret_to_sign_with",
        "security/test_tokens.py::test_a_token_of_another_key_is_refused_whatever_key_id_it_names",
        "security/test_tokens.py::test_issuer_and_audience_are_checked_where_they_are_told",
    )),
    Row("S14", "TLS 1.0 and 1.1, no TLS, another authority, damage; Pulsar with another host name", "refused", tests=(
        "connection/listeners/test_tls.py::test_old_versions_of_tls_are_refused",
        "connection/listeners/test_tls.py::test_what_is_no_tls_is_closed_counted_and_logged",
        "connection/listeners/test_tls.py::test_damage_on_the_way_ends_the_connection",
        "pulsar/admin/test_admin.py::test_a_server_is_believed_by_its_certificate",
    )),
    Row("S15", "what is another's, by every API", "denied as Kafka denies it; names not listed", tests=(
        "authorization/test_matrix.py::test_each_principal_is_told_what_kafka_tells_it",
        "authorization/test_matrix.py::test_every_api_is_asked",
    )),
    Row("S16", "idempotent and transactional batches around a right (CVE-2018-17196)", "denied", tests=(
        "authorization/test_matrix.py::test_each_principal_is_told_what_kafka_tells_it",
    )),
    Row("S17", "look-ups of Pulsar that lead to 169.254.169.254 or another host", "not connected to", tests=(
        "pulsar/connection/test_lookup.py::test_a_broker_that_lies_about_a_topics_place_makes_no_connection",
        "pulsar/connection/test_lookup.py::test_a_redirect_to_a_host_that_is_not_allowed_is_not_followed",
        "pulsar/admin/test_admin.py::test_a_redirect_to_a_host_that_is_not_allowed_is_refused",
    )),
    Row("S18", "client ids: another each time, 32 KB, line ends, `${jndi:…}`", "escaped; no series of metrics for each",
        requests.client_ids, (
            "telemetry/test_log.py::test_a_client_cannot_forge_a_line",
            "telemetry/test_metrics.py::test_clients_cannot_make_series",
        )),
    Row("S19", f"{IDLE:,} idle connections", "250 MB at most; others served", connections.idle, memory=250_000_000),
    Row("S19", f"{IDLE:,} idle connections over TLS", "500 MB at most; others served", connections.idle_tls,
        memory=500_000_000),
    Row("S19", "1,000 clients that send single bytes", "answered", connections.slow,
        (f"{_HOSTILE}::test_slow_clients_and_resets_cost_no_descriptors",)),
    Row("S20", "resets at any byte of a request", "no descriptor lost", connections.resets,
        (f"{_HOSTILE}::test_slow_clients_and_resets_cost_no_descriptors",)),
    Row("S20", "clients that end their half of the socket", "answered, then closed", connections.half_closed,
        (f"{_HOSTILE}::test_a_half_closed_client_is_still_answered",)),
    Row("S21", "1,000 requests at once, behind a Fetch that waits", "all answered in order", requests.pipelined,
        (f"{_HOSTILE}::test_a_long_pipeline_is_answered_in_order",)),
    Row("S22", "20 clients ask 50 times for 10 MB and do not read", "64 MiB at most", connections.non_readers,
        (f"{_HOSTILE}::test_clients_that_never_read_hold_little",)),
    Row("S23", "records of 9 and 60 MiB above `max.message.bytes`", "MESSAGE_TOO_LARGE", requests.large_records,
        (f"{_HOSTILE}::test_large_records_are_stored_whole_or_refused",), _BUDGET),
    Row("S24", "groups: sessions below zero, names of 30 KB, 8 MiB of metadata, ghosts", "answered", groups.groups,
        ("groups/classic/test_state.py",)),
    Row("S24", "100,000 groups, each with a ghost", "answered; nothing kept", groups.many_groups),
    Row("S25", "producers: gap, older epoch, a batch again", "45, 47, stored once", groups.producer_ids,
        ("storage/append/test_idempotence.py",)),
    Row("S26", "sound requests, changed by chance", "answered or closed", requests.mutated,
        (f"{_HOSTILE}::test_mutated_requests_are_answered_or_closed",
         "fuzz/test_million.py::test_a_million_mutants_are_answered_or_closed")),
    Row("S27", "a search for secrets in log, metrics, command lines, error texts", "none found",
        tests=("security/test_no_secrets.py",)),
    Row("S28", "`eval`, `pickle`, `yaml.load`; packages without hashes", "none", tests=("test_supply_chain.py",)),
    Row("S29", "share groups: 100,000 ranges, by groups that accept every other record", "stored",
        shares.ranges, ("shares/test_partition.py::test_beyond_the_budget_of_ranges_no_new_records_are_given",)),
    Row("S29", "share groups: 3,000 sessions", "2,000 opened, the others refused", shares.sessions,
        ("shares/test_bounds.py::test_the_sessions_read_only_so_many_partitions",)),
    Row("S29", "share groups: 220 members, made-up epochs", "200 taken; errors 42, 110, 122", shares.members_and_epochs,
        ("groups/share/test_state.py::test_a_group_is_full",)),
    Row("S30", "streams groups: 10,000 subtopologies", "answered", shares.topologies,
        ("groups/streams/test_topology.py",)),
    Row("S31", "transactions: 100,000 partitions named of a topic, and 40,000 topics", "error 42",
        transactions.partitions, ("apis/test_transactions.py",)),
    Row("S31", "transactions: offsets of 1,020 groups", "1,000 taken; the others refused", transactions.groups,
        ("transactions/test_state.py",)),
    Row("S31", "transactions: 5,000 transactional ids, made-up epochs", "taken, or error 44; errors 47, 90",
        transactions.ids, ("apis/test_transactions.py::test_epochs_that_are_not_the_producer_s_touch_nothing",)),
)  # fmt: skip
