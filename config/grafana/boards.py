"""The dashboards, each with the questions that it answers."""

from __future__ import annotations

from collections.abc import Iterator

from grafana_foundation_sdk.builders.dashboard import Dashboard

from config.grafana.panels import (
    Panel,
    board,
    graph,
    lag,
    lag_not_known,
    lag_seconds,
    most,
    number,
    quantile,
    quantiles,
    rate,
    rows,
    series,
    share,
    top,
    total,
)

NODE = "{{instance}}"
PRODUCE = 'api="Produce"'
FETCH = 'api="Fetch"'


def boards() -> Iterator[Dashboard]:
    """All of them."""
    yield overview()
    yield topics()
    yield groups()
    yield transactions()
    yield clients()
    yield pulsar()
    yield nodes()


def overview() -> Dashboard:
    """Is it well, and how much goes through it?"""
    now = [
        number("Nodes scraped", "Bridges that gave metrics.", "none", 'sum(up{job="bridge"})'),
        number("Nodes ready", "All their checks of /readyz held.", "none",
               f"sum(min by (instance) ({series('bridge_ready_check')}))"),
        number("Alerts firing", "Of config/alerts.yml.", "none",
               'count(ALERTS{alertname=~"Bridge.*", alertstate="firing"}) or vector(0)', red_from=1),
        number("Connections", "Open client connections.", "none", f"sum({series('bridge_kafka_connections')})"),
        number("Produced", "Bytes of produce requests.", "Bps",
               f"sum({rate('bridge_kafka_request_bytes_total', 'instance', PRODUCE)})"),
        number("Fetched", "Bytes of fetch answers.", "Bps",
               f"sum({rate('bridge_kafka_response_bytes_total', 'instance', FETCH)})"),
    ]  # fmt: skip
    service = [
        graph("Topics", "Bytes produced, the ten largest.", "Bps",
              (top(10, rate("bridge_topic_produced_bytes_total", "topic")), "{{topic}}")),
        graph("Memory", "How full each budget is. `records` are kept to be read again: it fills up.", "percentunit",
              (share("bridge_memory_used_bytes", "bridge_memory_limit_bytes", "instance, kind"),
               "{{instance}} {{kind}}")),
        graph("Requests", "By API. Fetch and Heartbeat come from idle consumers, too.", "reqps",
              (top(10, rate("bridge_kafka_requests_total", "api")), "{{api}}")),
        graph("Errors answered", "By API and Kafka's name. docs/operations.md, \"When something is wrong\".", "reqps",
              (rate("bridge_kafka_errors_total", "api, error"), "{{api}} {{error}}")),
        graph("Produce: from request to answer", "Most of it is Pulsar's: see the receipts.", "s",
              *quantiles("bridge_kafka_request_seconds", "instance", PRODUCE)),
        graph("Pulsar's receipts", "From send to receipt: Pulsar's time and the network's.", "s",
              *quantiles("bridge_pulsar_receipt_seconds")),
        graph("Checks that fail", "1 where a check of /readyz does not hold.", "none",
              (f"1 - min by (instance, check) ({series('bridge_ready_check')})", "{{instance}} {{check}}")),
        graph("Records behind", "Of the ten groups furthest behind, of those of which it is known.", "none",
              (top(10, lag("group")), "{{group}}")),
    ]  # fmt: skip
    says = "Is it well, and how much goes through it?"
    return board("overview", "overview", says, [("Now", now), ("Service", service)])


def topics() -> Dashboard:
    """What is written and read, and where?"""
    chosen = 'topic=~"$topic"'
    traffic = [
        graph("Produced", "Bytes of batches, the ten largest.", "Bps",
              (top(10, rate("bridge_topic_produced_bytes_total", "topic", chosen)), "{{topic}}")),
        graph("Fetched", "Bytes of batches, the ten largest.", "Bps",
              (top(10, rate("bridge_topic_fetched_bytes_total", "topic", chosen)), "{{topic}}")),
        graph("Records produced", "Those that Pulsar has stored.", "ops",
              (top(10, rate("bridge_topic_produced_records_total", "topic", chosen)), "{{topic}}")),
        graph("Records fetched", "As often as they were fetched.", "ops",
              (top(10, rate("bridge_topic_fetched_records_total", "topic", chosen)), "{{topic}}")),
        rows("Partitions", "Where each ends: those that clients use, and those that groups have offsets for.", "none",
             f"max by (topic, partition) ({series('bridge_partition_end_offset', chosen)})"),
        rows("Records kept", "From the first to the last, by retention; of partitions whose start is known.", "none",
             f"max by (topic, partition) ({series('bridge_partition_end_offset', chosen)}) - "
             f"max by (topic, partition) ({series('bridge_partition_start_offset', chosen)})"),
        graph("Topics known", "To each node: those that its clients have named or listed.", "none",
              (total("bridge_storage_known_topics"), NODE),
              (total("bridge_storage_known_partitions"), "{{instance}} partitions")),
        graph("Left out", "What limits keep out of these figures: raise http.max_topics_in_metrics.", "none",
              (f"max by (kind) ({series('bridge_metrics_left_out')})", "{{kind}}")),
    ]  # fmt: skip
    storage = [
        graph("Partitions open", "Those that clients have used of late, and those of them that a node leads.", "none",
              (total("bridge_storage_open_partitions"), NODE),
              (total("bridge_storage_led_partitions"), "{{instance}} led")),
        graph("Records in memory", "Bytes, of storage.cache_bytes.", "bytes",
              (total("bridge_storage_cache_bytes"), NODE)),
        graph("Reads from memory", "The share of fetches that needed no reader in Pulsar.", "percentunit",
              (f"{rate('bridge_storage_cache_hits_total')} / ({rate('bridge_storage_cache_hits_total')} + "
               f"{rate('bridge_storage_cache_misses_total')})", NODE)),
        graph("Readers of older records", "Of consumers far behind, of storage.max_catchup_readers.", "none",
              (total("bridge_storage_catchup_readers"), NODE)),
        graph("Entries to and from Pulsar", "Batches may share an entry.", "ops",
              (rate("bridge_pulsar_entries_sent_total"), "{{instance}} sent"),
              (rate("bridge_pulsar_entries_read_total"), "{{instance}} read")),
        graph("Offsets learnt by reading back", "Other programs write to the same partitions.", "ops",
              (rate("bridge_storage_reanchors_total"), NODE)),
    ]  # fmt: skip
    says = "What is written and read, and where?"
    return board("topics", "topics", says, [("Traffic", traffic), ("Storage", storage)], "topic")


def groups() -> Dashboard:
    """Who is behind, and does it get better?"""
    chosen = ('group=~"$group"', 'topic=~"$topic"')
    behind = [
        graph("Records behind", "By group and topic. No line: of a partition it is not known.", "none",
              (lag("group, topic", *chosen), "{{group}} {{topic}}")),
        graph("Seconds behind", "The age of the oldest record that is not committed. No line: one is not known.", "s",
              (lag_seconds("group, topic", *chosen), "{{group}} {{topic}}")),
        graph("Committed per second", "Zero, while records are behind: the consumer is stuck or gone.", "ops",
              (f"sum by (group, topic) (deriv({series('bridge_group_committed_offset', *chosen)}[$__rate_interval]))",
               "{{group}} {{topic}}")),
        rows("By partition", "What each group has not committed.", "none", lag("group, topic, partition", *chosen)),
        graph("Not known", "Partitions whose lag is not known. For long: see the log line '! lag not known'.", "none",
              (lag_not_known("group, topic", *chosen), "{{group}} {{topic}}")),
        graph("Members", "0, while records are behind: the consumers are gone, or assign partitions to themselves.",
              "none", (most("bridge_group_members", "group", chosen[0]), "{{group}}")),
    ]  # fmt: skip
    keeping = [
        rows("States", "PreparingRebalance, CompletingRebalance, Reconciling for minutes: see the members' logs.",
             "none", f"max by (group, protocol, state) ({series('bridge_group_info', chosen[0])})"),
        graph("Groups by state", "Of those in memory.", "none",
              (total("bridge_groups_in_state", "protocol, state"), "{{protocol}} {{state}}")),
        graph("Members of all groups", "Also of those that are not shown by name.", "none",
              (total("bridge_groups_members"), NODE)),
        graph("Groups", "Those that each node coordinates, and those of them that are in memory.", "none",
              (total("bridge_groups_coordinated"), NODE), (total("bridge_groups_loaded"), "{{instance}} in memory")),
        graph("Rebalances", "Each is a pause for the group's members.", "ops",
              (rate("bridge_groups_rebalances_total"), NODE)),
        graph("Commits", "Offsets of single partitions.", "ops", (rate("bridge_groups_commits_total"), NODE)),
        graph("Storing groups", "From a write to Pulsar's receipt.", "s", *quantiles("bridge_groups_write_seconds")),
    ]  # fmt: skip
    says = "Which groups are behind, and does it get better?"
    return board("groups", "groups and lag", says, [("Lag", behind), ("Coordination", keeping)], "group", "topic")


def transactions() -> Dashboard:
    """Do transactions end, and who waits for them?"""
    ending = [
        graph("Open", "At the nodes that coordinate them.", "none", (total("bridge_transactions_open"), NODE)),
        graph("Open for", "The oldest of each node.", "s", (most("bridge_transactions_open_seconds"), NODE)),
        graph("Ended", "Aborts are those of time-outs, too.", "ops",
              (rate("bridge_transactions_commits_total"), "{{instance}} committed"),
              (rate("bridge_transactions_aborts_total"), "{{instance}} aborted"),
              (rate("bridge_transactions_timeouts_total"), "{{instance}} timed out")),
        graph("Ending one", "From an EndTxn to Pulsar's receipt.", "s", *quantiles("bridge_transactions_end_seconds")),
        graph("Open for too long", "For more than twice their time-outs, as each node knows it.", "none",
              (most("bridge_transactions_overdue"), NODE)),
        graph("Ids that wait", "How long the oldest has waited for the outcome of a write.", "s",
              (most("bridge_transactions_closed_seconds"), NODE)),
    ]  # fmt: skip
    waiting = [
        graph("Readers held back", "How long, in topics where it is more than ten seconds. No line: nowhere.", "s",
              (most("bridge_topic_stable_offset_held_seconds", "topic"), "{{topic}}")),
        graph("What is known", "How old it may be at each node: readers of committed records wait meanwhile.", "s",
              (most("bridge_transactions_table_age_seconds"), NODE)),
        graph("Asking", "From the question what is recorded of transactions to Pulsar's answer.", "s",
              *quantiles("bridge_transactions_confirm_seconds")),
        graph("Slots read again", "Of other nodes: an entry was missed, or Pulsar was away.", "ops",
              (rate("bridge_transactions_reloads_total"), NODE)),
        graph("Pending offsets", "Committed in transactions that are open, or have just ended.", "none",
              (total("bridge_groups_pending_offsets"), NODE)),
        graph("Pending for", "The oldest of them.", "s", (most("bridge_groups_pending_seconds"), NODE)),
    ]  # fmt: skip
    says = "Do transactions end, and who waits for them?"
    return board("transactions", "transactions", says, [("Transactions", ending), ("Who waits", waiting)])


def clients() -> Dashboard:
    """Who comes, who is refused, who waits?"""
    return board(
        "clients",
        "clients",
        "Who comes, who is refused, who waits?",
        [("Clients", _software()), ("Requests", _requests()), ("Refused", _refused()), ("Waiting", _waiting())],
    )


def _software() -> list[Panel]:
    by, name = "client_software_name, client_software_version", "{{client_software_name}} {{client_software_version}}"
    return [
        graph("Connections", "By the software that clients say they are.", "none",
              (top(10, total("bridge_client_connections", by)), name)),
        graph("Requests", "The ten that ask most.", "reqps", (top(10, rate("bridge_client_requests_total", by)), name)),
        graph("Sent", "Bytes of requests.", "Bps", (top(10, rate("bridge_client_request_bytes_total", by)), name)),
        graph("Received", "Bytes of answers.", "Bps", (top(10, rate("bridge_client_response_bytes_total", by)), name)),
        graph("Errors", "Error codes that each was answered.", "ops",
              (top(10, rate("bridge_client_errors_total", by)), name)),
        graph("Requests by principal", "The ten that ask most; where http.principals_in_metrics is on.", "reqps",
              (top(10, rate("bridge_client_requests_total", "principal", 'principal!=""')), "{{principal}}")),
        graph("Errors by principal", "Error codes that each was answered; where http.principals_in_metrics is on.",
              "ops", (top(10, rate("bridge_client_errors_total", "principal", 'principal!=""')), "{{principal}}")),
        graph("New connections", "Many for few clients: they do not keep them.", "cps",
              (rate("bridge_kafka_connections_accepted_total"), NODE)),
    ]  # fmt: skip


def _requests() -> list[Panel]:
    return [
        graph("Requests by API", "Who asks much for nothing shows here.", "reqps",
              (rate("bridge_kafka_requests_total", "api"), "{{api}}")),
        graph("From request to answer", "One in a hundred takes longer. Fetch and JoinGroup wait on purpose.", "s",
              (quantile(0.99, "bridge_kafka_request_seconds", "api"), "{{api}}")),
    ]  # fmt: skip


def _refused() -> list[Panel]:
    return [
        graph("Refused frames and connections", "By reason; the log's `! refused` says who.", "ops",
              (rate("bridge_kafka_rejected_total", "reason"), "{{reason}}")),
        graph("Log-ins", "By mechanism and outcome; bridge.audit says who failed.", "ops",
              (rate("bridge_logins_total", "mechanism, outcome"), "{{mechanism}} {{outcome}}")),
        graph("Denials", "By operation and resource; bridge.audit says who and what.", "ops",
              (rate("bridge_authorization_denials_total", "operation, resource"), "{{operation}} {{resource}}")),
        graph("TLS handshakes", "By outcome.", "ops", (rate("bridge_tls_handshakes_total", "outcome"), "{{outcome}}")),
        rows("Certificates", "What is left of each listener's.", "s",
             f"min by (instance, listener) ({series('bridge_tls_certificate_expires_seconds')}) - time()"),
    ]  # fmt: skip


def _waiting() -> list[Panel]:
    return [
        graph("Sockets not read", "For back-pressure, and for quotas.", "none",
              (total("bridge_kafka_paused_connections"), "{{instance}} memory"),
              (total("bridge_quota_throttled_connections"), "{{instance}} quota")),
        graph("Throttled by quotas", "How long clients were told to wait, per second.", "s",
              (rate("bridge_quota_throttled_seconds_total", "quota"), "{{quota}}")),
        graph("Limits in number", "How much of each is used: connections, readers, fetches that wait.", "percentunit",
              (share("bridge_places_used", "bridge_places_limit", "instance, kind"), "{{instance}} {{kind}}")),
    ]  # fmt: skip


def pulsar() -> Dashboard:
    """Does Pulsar answer, and how fast?"""
    says = "Does Pulsar answer, and how fast?"
    return board(
        "pulsar", "Pulsar's side", says, [("As the bridge sees it", _seen()), ("As Pulsar says", _pulsar_itself())]
    )


def _seen() -> list[Panel]:
    return [
        graph("Receipts", "From send to receipt.", "s", *quantiles("bridge_pulsar_receipt_seconds")),
        graph("Heartbeats", "Each node has Pulsar store one a second: none means that Pulsar stores nothing.", "ops",
              (rate("bridge_cluster_heartbeat_seconds_count"), NODE)),
        graph("Receipts by broker", "The mean of each. One that is slower than the others: look at its machine.", "s",
              (f"{rate('bridge_pulsar_broker_receipt_seconds_sum', 'broker')} / "
               f"{rate('bridge_pulsar_broker_receipt_seconds_count', 'broker')}", "{{broker}}")),
        graph("Since the last receipt", "Of each broker, while something was sent to it later.", "s",
              (f"max by (broker) (clamp_min({series('bridge_pulsar_broker_last_send_timestamp_seconds')} - "
               f"{series('bridge_pulsar_broker_last_receipt_timestamp_seconds')}, 0))", "{{broker}}")),
        rows("Token", "What is left of the one that each node logs in to Pulsar with.", "s",
             f"min by (instance, source) ({series('bridge_pulsar_token_expires_seconds')}) - time()"),
        graph("Refused for", "How long Pulsar has refused all that was sent to it.", "s",
              (total("bridge_pulsar_stalled_seconds"), NODE)),
        graph("Topics not acknowledged", "Their oldest record waits for more than 5 s; /readyz names them.", "none",
              (total("bridge_pulsar_unacknowledged_topics"), NODE)),
        graph("Sends refused", "The log says why.", "ops", (rate("bridge_pulsar_send_errors_total"), NODE)),
        graph("Bytes to and from Pulsar", "As entries.", "Bps",
              (rate("bridge_pulsar_bytes_sent_total"), "{{instance}} sent"),
              (rate("bridge_pulsar_bytes_read_total"), "{{instance}} read")),
        graph("Connections", "Open to brokers.", "none", (total("bridge_pulsar_connections"), NODE)),
        graph("Producers and readers", "Held in Pulsar.", "none",
              (total("bridge_pulsar_producers"), "{{instance}} producers"),
              (total("bridge_pulsar_readers"), "{{instance}} readers")),
        graph("Moves", "Brokers restart, topics move.", "ops",
              (rate("bridge_pulsar_reconnects_total"), "{{instance}} opened again"),
              (rate("bridge_pulsar_connections_lost_total"), "{{instance}} connections lost"),
              (rate("bridge_pulsar_lookup_errors_total"), "{{instance}} look-ups failed")),
        graph("Entries that cannot be decoded", "The log says where.", "ops",
              (rate("bridge_pulsar_corrupt_entries_total"), NODE)),
    ]  # fmt: skip


def _pulsar_itself() -> list[Panel]:
    return [
        graph("Messages", "What Pulsar's brokers take and give, of all their clients.", "ops",
              ("sum(pulsar_rate_in)", "in"), ("sum(pulsar_rate_out)", "out")),
        graph("Stored", "Bytes, of all topics.", "bytes", ("sum(pulsar_storage_size)", "all topics")),
        graph("Stored by topic", "Bytes, of the ten topics of Pulsar, or partitions of them, that keep most.", "bytes",
              ("topk(10, sum by (topic) (pulsar_storage_size))", "{{topic}}")),
        graph("Memory of the brokers", "Of the JVM, and direct.", "bytes",
              ("sum(jvm_memory_bytes_used) by (instance, area)", "{{instance}} {{area}}")),
        graph("Topics and producers", "Of Pulsar's brokers.", "none",
              ("sum(pulsar_topics_count)", "topics"), ("sum(pulsar_producers_count)", "producers")),
    ]  # fmt: skip


def nodes() -> Dashboard:
    """What do the nodes share, and does one of them have too much?"""
    cluster = [
        number("Nodes", "As the one that knows of fewest.", "none", f"min({series('bridge_cluster_members')})"),
        graph("Members", "As each node knows them.", "none", (total("bridge_cluster_members"), NODE), width=10),
        graph("Share of the partitions", "Slots that each leads.", "none",
              (total("bridge_cluster_slots_led"), NODE), width=10),
        graph("Partitions led", "Of those that are open.", "none", (total("bridge_storage_led_partitions"), NODE)),
        graph("Slots of groups", "That each coordinates.", "none", (total("bridge_groups_slots_held"), NODE)),
        graph("Heartbeats", "From a node's heartbeat to Pulsar's receipt.", "s",
              *quantiles("bridge_cluster_heartbeat_seconds")),
        rows("Ids", "What clients know the nodes by.", "none",
             f"max by (instance, node_id, name, rack) ({series('bridge_cluster_node_info')})"),
        rows("Versions", "And the codec in use: `python` takes forty times the CPU time.", "none",
             f"max by (instance, version, codec) ({series('bridge_build_info')})"),
        rows("Workers", "1 where one runs.", "none",
             f"min by (instance, worker) ({series('bridge_worker_up')})"),
    ]  # fmt: skip
    process = [
        graph("CPU", "1 is one core: a node, or each of its workers, uses little more.", "none",
              (rate("process_cpu_seconds_total"), NODE)),
        graph("Memory", "Resident.", "bytes", (total("process_resident_memory_bytes"), NODE)),
        graph("Event loop held", "One in a hundred turns came later than this. Above 50 ms the log says why.", "s",
              *quantiles("bridge_event_loop_held_seconds")),
        graph("Held in memory", "Of what has a limit: docs/operations.md, Memory.", "bytes",
              (total("bridge_memory_used_bytes", "instance, kind"), "{{instance}} {{kind}}")),
        graph("Python's garbage collection", "Collections, by generation.", "ops",
              (rate("python_gc_collections_total", "instance, generation"), "{{instance}} {{generation}}")),
        graph("Open files", "Connections, for the most part.", "none",
              (total("process_open_fds"), "{{instance}} open"),
              (f"min by (instance) ({series('process_max_fds')})", "{{instance}} at most")),
        graph("Up for", "Since the process began.", "s",
              (f"time() - min by (instance) ({series('process_start_time_seconds')})", NODE)),
    ]  # fmt: skip
    says = "What do the nodes share, and does one of them have too much?"
    return board("nodes", "nodes", says, [("Cluster", cluster), ("Process", process)])
