"""The settings, section by section; one frozen object of them is passed in, never changed."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from bridge.config.rules import (
    INT32_MAX,
    Address,
    address,
    check_rules,
    check_type,
    fields_of,
    integer,
    is_admin_url,
    is_service_url,
    known_name,
    one_of,
    pulsar_name,
    readable_file,
    seconds,
    text,
    toml_value,
)
from bridge.errors import SettingsError


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """The side Kafka clients see."""

    listen: str = address("127.0.0.1:9092")
    advertised: str = address("", optional=True)
    node_id: int = integer(-1, -1, INT32_MAX)
    rack: str = ""
    workers: int = integer(1, 0, 1024)
    worker_port: int = integer(9093, 0, 65_535)
    max_request_bytes: int = integer(104_857_600, 1024, INT32_MAX)
    max_connections: int = integer(10_000, 1)
    max_connections_per_ip: int = integer(5000, 1)
    idle_seconds: float = seconds(600)
    max_in_flight_requests: int = integer(64, 1)
    auto_create_topics: bool = True
    default_partitions: int = integer(1, 1, 10_000)
    max_partitions_per_topic: int = integer(2000, 1, INT32_MAX)
    max_partitions: int = integer(50_000, 1, INT32_MAX)
    max_fetch_bytes: int = integer(57_671_680, 1024, INT32_MAX)
    memory_budget_bytes: int = integer(268_435_456, 1024)

    def __post_init__(self) -> None:
        check_rules("kafka", self)
        if self.memory_budget_bytes < self.max_request_bytes:
            raise SettingsError(
                f"kafka.memory_budget_bytes = {self.memory_budget_bytes} is below kafka.max_request_bytes = "
                f"{self.max_request_bytes}: a request of the allowed size could never be taken in"
            )
        if self.default_partitions > self.max_partitions_per_topic:
            raise SettingsError(
                f"kafka.default_partitions = {self.default_partitions} is above kafka.max_partitions_per_topic = "
                f"{self.max_partitions_per_topic}: no topic could be created automatically"
            )
        if not self.advertised and Address.parse(self.listen).host in ("0.0.0.0", "::"):  # noqa: S104 - it is refused
            raise SettingsError(
                f'kafka.listen = "{self.listen}" is every interface, which clients cannot be told to connect to: '
                "set kafka.advertised to the host:port they should use"
            )


@dataclass(frozen=True, slots=True)
class PulsarSettings:
    """The Pulsar that holds the data, and how to log in to it."""

    service_url: str = text(
        "pulsar://127.0.0.1:6650", "pulsar://host:port or pulsar+ssl://host:port, more hosts by commas", is_service_url
    )
    admin_url: str = text(
        "http://127.0.0.1:8080", "http://host:port or https://host:port, more hosts by commas", is_admin_url
    )
    tenant: str = pulsar_name("public")
    namespace: str = pulsar_name("default")
    listener_name: str = ""
    token: str = field(default="", repr=False, metadata={"secret": True})
    token_file: str = readable_file()
    tls_ca_file: str = readable_file()
    tls_cert_file: str = readable_file()
    tls_key_file: str = readable_file()
    tls_verify_hostname: bool = True
    tls_allow_insecure: bool = False
    connect_timeout_seconds: float = seconds(10)
    operation_timeout_seconds: float = seconds(30)
    keepalive_seconds: float = seconds(30)
    max_pending_bytes: int = integer(67_108_864, 1024)

    def __post_init__(self) -> None:
        check_rules("pulsar", self)
        if self.token and self.token_file:
            raise SettingsError("pulsar.token and pulsar.token_file are both set: keep one of them")
        if bool(self.tls_cert_file) != bool(self.tls_key_file):
            here, missing = ("cert", "key") if self.tls_cert_file else ("key", "cert")
            raise SettingsError(f"pulsar.tls_{here}_file is set without pulsar.tls_{missing}_file: set both or neither")

    @property
    def full_namespace(self) -> str:
        """`tenant/namespace`, as Pulsar writes it."""
        return f"{self.tenant}/{self.namespace}"


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """This node among those that share its Pulsar namespace; one node needs none of it."""

    name: str = ""
    weight: int = integer(1, 0, 1_000_000)
    slots: int = integer(4096, 1, 65_536)
    dead_seconds: float = seconds(3)
    drain_seconds: float = seconds(10)

    def __post_init__(self) -> None:
        check_rules("cluster", self)


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """What is kept of records that no Pulsar subscription holds."""

    ensure: bool = True
    minutes: int = integer(10_080, 1, INT32_MAX, unlimited=True)
    megabytes: int = integer(-1, 1, INT32_MAX, unlimited=True)

    def __post_init__(self) -> None:
        check_rules("retention", self)


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """How partitions are written, read and cached."""

    entry_format: str = one_of("pulsar", "pulsar", "kafka")
    fetch_compression: str = one_of("producer", "producer", "none")
    cache_bytes: int = integer(268_435_456, 0)
    tail_idle_seconds: float = seconds(60)
    reader_queue_messages: int = integer(100_000, 1, INT32_MAX)
    reader_buffer_bytes: int = integer(2_097_152, 1024)
    max_catchup_readers: int = integer(64, 1)

    def __post_init__(self) -> None:
        check_rules("storage", self)


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Consumer groups: their coordinator, their committed offsets and what is shown of them."""

    slots: int = integer(8, 1, 1024)
    initial_rebalance_delay_ms: int = integer(100, 0, INT32_MAX)
    min_session_timeout_ms: int = integer(6000, 1, INT32_MAX)
    max_session_timeout_ms: int = integer(1_800_000, 1, INT32_MAX)
    max_size: int = integer(5000, 1, INT32_MAX)
    max_member_metadata_bytes: int = integer(1_048_576, 1024, INT32_MAX)
    max_metadata_bytes: int = integer(134_217_728, 1024)
    consumer_heartbeat_interval_ms: int = integer(5000, 1, INT32_MAX)
    consumer_session_timeout_ms: int = integer(45_000, 1, INT32_MAX)
    consumer_max_members: int = integer(1000, 1, INT32_MAX)
    offsets_retention_minutes: int = integer(10_080, 1, INT32_MAX)
    max_offset_metadata_bytes: int = integer(4096, 0, INT32_MAX)
    compact_after_writes: int = integer(100_000, 1)
    max_groups_in_metrics: int = integer(200, 0)
    mirror_pattern: str = text("", "a regular expression (Python's)", _is_pattern)

    def __post_init__(self) -> None:
        check_rules("groups", self)
        if self.min_session_timeout_ms > self.max_session_timeout_ms:
            raise SettingsError(
                f"groups.min_session_timeout_ms = {self.min_session_timeout_ms} is above "
                f"groups.max_session_timeout_ms = {self.max_session_timeout_ms}: no session timeout could be allowed"
            )
        if self.consumer_heartbeat_interval_ms >= self.consumer_session_timeout_ms:
            raise SettingsError(
                f"groups.consumer_heartbeat_interval_ms = {self.consumer_heartbeat_interval_ms} is not below "
                f"groups.consumer_session_timeout_ms = {self.consumer_session_timeout_ms}: every member would be taken "
                "for dead"
            )


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """The operator's side: metrics and health."""

    listen: str = address("127.0.0.1:9308")
    max_connections: int = integer(64, 1)
    max_connections_per_ip: int = integer(16, 1)

    def __post_init__(self) -> None:
        check_rules("http", self)


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What is logged, and how."""

    level: str = one_of("info", "debug", "info", "warning", "error")
    format: str = one_of("text", "text", "json")

    def __post_init__(self) -> None:
        check_rules("log", self)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything the bridge can be told; one object, passed in, never changed."""

    kafka: KafkaSettings = field(default_factory=KafkaSettings)
    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    pulsar: PulsarSettings = field(default_factory=PulsarSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    storage: StorageSettings = field(default_factory=StorageSettings)
    groups: GroupSettings = field(default_factory=GroupSettings)
    http: HttpSettings = field(default_factory=HttpSettings)
    log: LogSettings = field(default_factory=LogSettings)

    def with_values(self, **sections: Mapping[str, Any]) -> "Settings":
        """A copy with some values changed: `with_values(kafka={"node_id": 1})`; unknown names are refused."""
        changed: dict[str, Any] = {}
        for section, values in sections.items():
            known = fields_of(SECTIONS[known_name(section, SECTIONS, "section")])
            for name, value in values.items():
                check_type(section, known[known_name(name, known, f"setting {section}.")], value)
            changed[section] = replace(getattr(self, section), **values)
        return replace(self, **changed)

    def to_toml(self) -> str:
        """The settings as a TOML file that `load` reads back; it holds the token, so keep it private."""
        sections = asdict(self)
        lines: list[str] = []
        for section, values in sections.items():
            lines += [f"[{section}]", *(f"{name} = {toml_value(value)}" for name, value in values.items()), ""]
        return "\n".join(lines)


SECTIONS: dict[str, type] = {f.name: f.default_factory for f in fields(Settings)}  # type: ignore[misc]
