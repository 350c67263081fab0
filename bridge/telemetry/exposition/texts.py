"""What each metric of one plain number is called, and what its reader should know: what it counts, and what to do."""

from collections.abc import Mapping
from typing import Final

SERVER: Final[Mapping[str, tuple[str, str]]] = {
    "loop_held_seconds": (
        "bridge_event_loop_held_seconds",
        "How late the event loop came to what was due each 20 ms. Above 50 ms all clients wait: the log line "
        "'! event loop held' names the API and the code.",
    ),
    "connections": (
        "bridge_kafka_connections",
        "Open client connections. At its limit (bridge_places_limit) new ones are closed: raise kafka.max_connections.",
    ),
    "connections_accepted": (
        "bridge_kafka_connections_accepted",
        "Client connections accepted. A high rate costs log-ins and handshakes: clients should keep their connections.",
    ),
    "paused_connections": (
        "bridge_kafka_paused_connections",
        "Client sockets that are not read, for back-pressure. For long above 0: see bridge_memory_used_bytes and "
        "whether Pulsar stores (bridge_pulsar_receipt_seconds).",
    ),
    "in_flight_bytes": (
        "bridge_in_flight_bytes",
        "Bytes of requests held. At kafka.memory_budget_bytes no socket is read: Pulsar is slow, or the budget small.",
    ),
    "waiting_answer_bytes": (
        "bridge_waiting_answer_bytes",
        "Bytes of answers that are read from Pulsar, or not taken by their clients yet. Near "
        "kafka.memory_budget_bytes consumers are slow at reading, and get less with each answer.",
    ),
    "preferred_replicas": (
        "bridge_kafka_preferred_replicas",
        "Partitions of Fetch whose consumers were sent to a node of their rack. More than one a partition and consumer "
        "in five minutes: they go to and fro, see docs/cluster.md.",
    ),
    "tenant_namespaces": (
        "bridge_tenant_namespaces",
        "Open namespaces beside the bridge's own. At tenants.max_namespaces clients of more are refused: raise it.",
    ),
    "http_rejected": (
        "bridge_http_rejected",
        "Connections refused on the side of metrics and health. If it grows, scrapes or probes fail: find who asks so "
        "often, or raise http.max_connections and http.max_connections_per_ip.",
    ),
    "http_unauthorized": (
        "bridge_http_unauthorized",
        "Requests there that were refused without the token. If it grows, who asks has no token, or an old one.",
    ),
}
"""By attribute of `Metrics`: name and text."""

PULSAR: Final[Mapping[str, str]] = {
    "connections": "Open connections to brokers. 0: Pulsar is not reached, and nothing is served; see the log.",
    "connections_opened": "Connections opened to brokers.",
    "connections_lost": "Connections to brokers lost. If it grows, brokers restart or the network fails: see the log.",
    "connections_refused": "Connections that a broker refused, as it has as many as it takes: topics share connections "
    "then, and one that Pulsar throttles slows those it shares with. Raise brokerMaxConnectionsPerIp there.",
    "reconnects": "Producers and consumers opened again: brokers restarted, or topics moved. All the time: see Pulsar.",
    "resumed_readers": "Readers that went on where they were after a reconnect.",
    "forgotten_readers": "Readers that brokers forgot as they closed topics; the bridge has opened them again.",
    "overfull_readers": "Readers opened again, as they held too much: slow consumers of topics in which large records "
    "follow many small ones. If it grows fast, raise storage.reader_buffer_bytes.",
    "lookups": "Topic look-ups.",
    "lookup_errors": "Topic look-ups that failed: the cluster cannot say which broker serves a topic. See the brokers.",
    "producers": "Producers held in Pulsar.",
    "readers": "Readers and consumers held in Pulsar.",
    "receipt_seconds": "From a send to Pulsar's receipt: Pulsar's part of a produce. Slow: look at bookies.",
    "send_errors": "Sends that a broker refused; they are sent again where that helps. The log says why.",
    "stalled_seconds": "How long Pulsar has refused all that was sent to it. Above 0: bookies' disks may be full, see "
    "docs/operations.md.",
    "unacknowledged_topics": "Topics with a record that Pulsar has not acknowledged for more than 5 s: they are above "
    "their publish rate, or their bookies hang. bridge_pulsar_topic_unacknowledged_seconds names them.",
    "entries_sent": "Entries sent to Pulsar.",
    "bytes_sent": "Bytes of entries sent to Pulsar.",
    "entries_read": "Entries read from Pulsar.",
    "bytes_read": "Bytes of entries read from Pulsar.",
    "corrupt_entries": "Stored entries that cannot be decoded. Above 0: the log says which; consumers go past them.",
    "unknown_commands": "Commands of brokers that are not understood, and ignored: a newer Pulsar than was tried.",
    "hosts_refused": "Times Pulsar named a host that the bridge may not connect to: see docs/security.md.",
    "auth_challenges": "Times a broker asked for new credentials.",
    "token_fetches": "Tokens fetched by OAuth2.",
    "token_fetch_errors": "Tokens that could not be fetched from the OAuth2 issuer. If it grows, the log says why.",
    "token_expires_seconds": "When the token for Pulsar ends, Unix time; 0: never. Near and not moving: it is not "
    "renewed.",
    "certificate_reload_errors": "New certificates for Pulsar that were unfit: the former one stays. The log says why.",
}
"""By attribute; the metric is `bridge_pulsar_` and the attribute's name."""

STORAGE: Final[Mapping[str, str]] = {
    "open_partitions": "Partitions held open by this process.",
    "grouped_batches": "Batches that share an entry of Pulsar: what storage.group_commit_bytes does.",
    "reanchors": "Offsets learnt by reading an entry back, 2 ms each: other producers write to the same partitions.",
    "searches_given_up": "Searches for repeated batches that ended because too many had no client waiting: reads from "
    "Pulsar are slow, or clients' request.timeout.ms is very short.",
    "cache_hits": "Reads answered from memory.",
    "cache_misses": "Reads that memory could not answer. Many of all reads: raise storage.cache_bytes.",
    "cache_bytes": "Bytes of records in memory.",
    "cold_lookups": "Searches in Pulsar for the entry that holds an offset: consumers began far behind.",
    "catchup_readers": "Readers serving consumers far behind. At storage.max_catchup_readers they displace each other.",
}
"""By attribute; the metric is `bridge_storage_` and the attribute's name."""

GROUPS: Final[Mapping[str, str]] = {
    "coordinated": "Groups with members or committed offsets that this node coordinates.",
    "loaded": "Groups in memory: those with members, or asked for.",
    "metadata_bytes": "Bytes that members say of themselves. At groups.max_metadata_bytes new members are refused.",
    "rebalances": "Rebalances completed. If it grows all the time, members are too slow or restart: see their logs.",
    "slots_held": "Slots of groups that this node coordinates.",
    "slots_lost": "Slots lost to another node or to an error; their groups' members find their new coordinator.",
    "records_read": "Stored records read when slots were taken.",
    "records_unreadable": "Stored records of groups that could not be read. Above 0: the log says of which group.",
    "records_written": "Records of groups stored.",
    "entries_written": "Pulsar entries that the records of groups took.",
    "write_seconds": "From a write of groups' records to Pulsar's receipt. Slow: commits wait for Pulsar.",
    "compactions": "Compactions of the groups' topic asked for.",
    "compaction_errors": "Compactions of the groups' topic refused. If it grows, starts take longer; the log says why.",
    "commits": "Offsets committed, of single partitions.",
    "expired_offsets": "Committed offsets that expired (groups.offsets_retention_minutes).",
    "mirrored": "Offsets mirrored to Pulsar subscriptions.",
    "mirror_errors": "Offsets that could not be mirrored. If it grows, the log says why.",
}
"""By attribute; the metric is `bridge_groups_` and the attribute's name."""

SECURITY: Final[Mapping[str, tuple[str, str]]] = {
    "users": ("bridge_security_users", "SCRAM credentials that are kept in Pulsar."),
    "acls": ("bridge_security_acls", "Access control entries that are kept in Pulsar."),
    "quotas": ("bridge_security_quotas", "Client quotas that are kept in Pulsar."),
    "not_understood": (
        "bridge_security_records_not_understood",
        "Kept records of a kind or format level that this version does not know. Above 0: a newer bridge wrote them; "
        "bring this one up to date.",
    ),
    "unreadable": (
        "bridge_security_unreadable_entries",
        "Entries of __bridge_security that could not be decoded. Above 0: something else writes there.",
    ),
    "compactions": ("bridge_security_compactions", "Compactions of __bridge_security asked for."),
    "compaction_errors": (
        "bridge_security_compaction_errors",
        "Compactions of __bridge_security that Pulsar refused. If it grows, its data may be held by retention alone: "
        "see the log.",
    ),
}
"""By attribute of `SecurityMetrics`: name and text."""

CLUSTER: Final[Mapping[str, tuple[str, str]]] = {
    "members": (
        "bridge_cluster_members",
        "Nodes of the cluster, as this node knows it. Fewer than run: see docs/cluster.md.",
    ),
    "view_version": (
        "bridge_cluster_view_version",
        "The version of the view that this node goes by. Nodes that differ for more than seconds: one is cut off.",
    ),
    "is_controller": ("bridge_cluster_is_controller", "1 on the node that is the controller. The sum should be 1."),
    "slots_led": (
        "bridge_cluster_slots_led",
        "Leadership slots of this node, of cluster.slots: its share of all partitions goes by them.",
    ),
    "void_records": (
        "bridge_cluster_void_records",
        "Views that this node proposed after another one. If it grows on and on, nodes contend: see docs/cluster.md.",
    ),
    "unreadable": (
        "bridge_cluster_unreadable_records",
        "Records of the cluster's topics that could not be decoded. Above 0: something else writes there.",
    ),
    "heartbeat_seconds": (
        "bridge_cluster_heartbeat_seconds",
        "From a heartbeat to its receipt. Near cluster.dead_seconds the node is taken for dead: Pulsar is slow.",
    ),
}
"""By attribute of `ClusterMetrics`: name and text."""

TLS: Final[Mapping[str, tuple[str, str]]] = {
    "under_way": (
        "bridge_tls_handshakes_under_way",
        "Connections that have not shaken hands yet. Many for long: clients connect faster than a core shakes hands.",
    ),
    "reloads": ("bridge_tls_certificate_reloads", "Changed certificates that were taken."),
    "reload_errors": (
        "bridge_tls_certificate_reload_errors",
        "Changed certificates that were unfit: the former one stays. If it grows, the log says why.",
    ),
}
"""By attribute of `TlsMetrics`: name and text."""

PERMISSIONS: Final[Mapping[str, tuple[str, str]]] = {
    "remembered": ("bridge_pulsar_permissions_remembered", "Answers about permissions in Pulsar that are remembered."),
    "roles": ("bridge_pulsar_permission_roles", "Roles with connections for questions about their permissions."),
}
"""By attribute of `PermissionMetrics`: name and text."""

LEFT_OUT: Final = (
    "How many a limit keeps out of the metrics now, by kind; topics and clients are in the series '(other)'. Above 0: "
    "raise http.max_topics_in_metrics, http.max_clients_in_metrics or groups.max_groups_in_metrics if they are missed."
)

HANDSHAKES: Final = (
    "TLS handshakes of clients. Many that are not 'established': clients have the wrong port, or do not trust the "
    "certificate; the log line '! no TLS handshake' says why."
)
CERTIFICATE: Final = "When a listener's certificate ends, Unix time. Some weeks away: put a new one in its place."
CRL: Final = (
    "When a listener's list of withdrawn client certificates ends, Unix time. Past it, clients with certificates are "
    "refused: put a new one in its place."
)

WORKERS: Final[Mapping[str, tuple[str, str, str]]] = {
    "up": (
        "bridge_worker_up",
        "gauge",
        "Whether the worker serves. 0 for more than some seconds: the log line '! worker died' says how.",
    ),
    "restarts": (
        "bridge_worker_restarts",
        "counter",
        "Starts of a worker after its deaths. If it grows, its own last lines in the log say why.",
    ),
    "left_out": (
        "bridge_worker_scrapes_failed",
        "counter",
        "Scrapes that a worker is left out of: it did not answer within three seconds. If it grows, it is overloaded.",
    ),
}
"""What the supervisor of several workers has itself: name, type and text. All else has the label `worker` there."""
