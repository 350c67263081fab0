"""The settings, section by section; one frozen object of them is passed in, never changed."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final

from bridge.config.http import HttpSettings
from bridge.config.listeners import (
    INTERNAL,
    SHORT_FORM,
    ListenerPlan,
    ListenerSettings,
    is_loopback,
    mechanisms,
    plan_listeners,
)
from bridge.config.pulsar import PulsarSettings
from bridge.config.rules import (
    INT32_MAX,
    Address,
    address,
    check_rules,
    check_type,
    fields_of,
    integer,
    is_every_interface,
    known_name,
    one_of,
    seconds,
    secret_file,
    text,
    toml_value,
)
from bridge.config.security import SecuritySettings
from bridge.config.tenants import TenantSettings
from bridge.errors import SettingsError

_DEFAULT_LISTEN: Final = "127.0.0.1:9092"


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """The settings of the side that Kafka clients see."""

    listen: str = address(_DEFAULT_LISTEN)
    advertised: str = address("", optional=True)
    listeners: str = ""
    advertised_listeners: str = ""
    listener_security_protocol_map: str = ""
    sasl_enabled_mechanisms: str = mechanisms("SCRAM-SHA-256,SCRAM-SHA-512")
    connection_failed_authentication_delay_ms: int = integer(100, 0, 10_000)
    max_failed_logins_per_ip_per_second: int = integer(10, 0, 10_000)
    authorizer: str = one_of("none", "none", "kafka", "pulsar")
    super_users: str = ""
    allow_everyone_if_no_acl_found: bool = False
    node_id: int = integer(-1, -1, INT32_MAX)
    rack: str = ""
    workers: int = integer(1, 0, 1024)
    worker_port: int = integer(9093, 0, 65_535)
    max_request_bytes: int = integer(104_857_600, 1024, INT32_MAX)
    max_message_bytes: int = integer(104_857_600, 1024, INT32_MAX)
    max_connections: int = integer(10_000, 1)
    max_connections_per_ip: int = integer(5000, 1)
    idle_seconds: float = seconds(600)
    max_in_flight_requests: int = integer(64, 1)
    auto_create_topics: bool = True
    auto_create_topics_per_minute: int = integer(300, 1, INT32_MAX, unlimited=True)
    auto_create_topics_per_minute_of_all: int = integer(1000, 1, INT32_MAX, unlimited=True)
    default_partitions: int = integer(1, 1, 10_000)
    max_partitions_per_topic: int = integer(2000, 1, INT32_MAX)
    max_partitions: int = integer(50_000, 1, INT32_MAX)
    max_fetch_bytes: int = integer(57_671_680, 1024, INT32_MAX)
    memory_budget_bytes: int = integer(268_435_456, 1024)

    def __post_init__(self) -> None:
        check_rules("kafka", self)
        for principal in self.super_user_names:
            kind, _, name = principal.partition(":")
            if not (kind and name):
                raise SettingsError(
                    f"kafka.super_users has {principal!r}: principals are written type:name, such as User:admin, with "
                    "semicolons between them"
                )
            if ",User:" in principal.replace(" ", ""):
                raise SettingsError(
                    f"kafka.super_users has {principal!r}: principals stand apart by semicolons, not commas"
                )
        if self.authorizer == "none" and self.super_users:
            raise SettingsError('kafka.super_users means nothing with kafka.authorizer = "none": set the authorizer')
        if self.authorizer != "kafka" and self.allow_everyone_if_no_acl_found:
            raise SettingsError('kafka.allow_everyone_if_no_acl_found goes with kafka.authorizer = "kafka" alone')
        if self.memory_budget_bytes < self.max_request_bytes:
            raise SettingsError(
                f"kafka.memory_budget_bytes = {self.memory_budget_bytes} is below kafka.max_request_bytes = "
                f"{self.max_request_bytes}: a request of the allowed size could never be taken in. "
                "Raise it, or lower the other"
            )
        if self.default_partitions > self.max_partitions_per_topic:
            raise SettingsError(
                f"kafka.default_partitions = {self.default_partitions} is above kafka.max_partitions_per_topic = "
                f"{self.max_partitions_per_topic}: no topic could be created automatically"
            )
        if not self.listeners and not self.advertised and is_every_interface(self.listen):
            raise SettingsError(
                f'kafka.listen = "{self.listen}" is every interface, which clients cannot be told to connect to: '
                "set kafka.advertised to the host:port they should use"
            )

    @property
    def largest_message(self) -> int:
        """The most bytes of a batch: no more than a request may have."""
        return min(self.max_message_bytes, self.max_request_bytes)

    @property
    def super_user_names(self) -> list[str]:
        """Principals such as `User:admin`."""
        return [one.strip() for one in self.super_users.split(";") if one.strip()]


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """This node among those that share its Pulsar namespace; one node needs none of it."""

    name: str = ""
    weight: int = integer(1, 0, 1_000_000)
    slots: int = integer(4096, 1, 65_536)
    dead_seconds: float = seconds(3)
    drain_seconds: float = seconds(10)
    rack_aware_fetch: bool = False
    addressing: str = one_of("nodes", "nodes", "single")
    internal_listen: str = address("", optional=True)
    internal_advertised: str = address("", optional=True)
    internal_secret_file: str = secret_file()

    def __post_init__(self) -> None:
        check_rules("cluster", self)
        if self.addressing == "single" and not self.internal_listen:
            raise SettingsError(
                'cluster.addressing = "single" needs cluster.internal_listen, where the other nodes connect: '
                "a host:port that clients cannot reach"
            )
        if self.internal_listen and not self.internal_advertised and is_every_interface(self.internal_listen):
            raise SettingsError(
                f'cluster.internal_listen = "{self.internal_listen}" is every interface, which the other nodes cannot '
                "be told to connect to: set cluster.internal_advertised to the host:port they should use"
            )

    @property
    def is_single(self) -> bool:
        """Whether clients reach all nodes behind one address."""
        return self.addressing == "single"


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """The settings of how long records are kept that no Pulsar subscription holds."""

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
    group_commit_bytes: int = integer(131_072, 0, 1_048_576)
    linger_ms: int = integer(0, 0, 1000)
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
    consumer_migration_policy: str = one_of("bidirectional", "disabled", "upgrade", "downgrade", "bidirectional")
    offsets_retention_minutes: int = integer(10_080, 1, INT32_MAX)
    max_offset_metadata_bytes: int = integer(4096, 0, INT32_MAX)
    compact_after_writes: int = integer(100_000, 1)
    max_groups_in_metrics: int = integer(500, 0)
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
class TransactionSettings:
    """Transactional ids and their transactions."""

    slots: int = integer(8, 1, 1024)
    version: int = integer(2, 1, 2)
    max_timeout_ms: int = integer(900_000, 1, INT32_MAX)
    id_expiration_ms: int = integer(604_800_000, 60_000)
    max_partitions: int = integer(10_000, 1, INT32_MAX)
    max_ids: int = integer(100_000, 1, INT32_MAX)
    max_open: int = integer(10_000, 1, INT32_MAX)
    compact_after_writes: int = integer(500_000, 1)

    def __post_init__(self) -> None:
        check_rules("transactions", self)


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The settings of what is logged, and how."""

    level: str = one_of("info", "debug", "info", "warning", "error")
    format: str = one_of("text", "text", "json")

    def __post_init__(self) -> None:
        check_rules("log", self)


def _overlap(one: Address, other: Address) -> bool:
    """Whether only one of them can listen."""
    everywhere = is_every_interface(str(one)) or is_every_interface(str(other))
    return one.port == other.port and (one.host == other.host or everywhere)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything the bridge can be told; one object, passed in, never changed."""

    kafka: KafkaSettings = field(default_factory=KafkaSettings)
    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    pulsar: PulsarSettings = field(default_factory=PulsarSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    storage: StorageSettings = field(default_factory=StorageSettings)
    groups: GroupSettings = field(default_factory=GroupSettings)
    transactions: TransactionSettings = field(default_factory=TransactionSettings)
    http: HttpSettings = field(default_factory=HttpSettings)
    log: LogSettings = field(default_factory=LogSettings)
    security: SecuritySettings = field(default_factory=SecuritySettings)
    tenants: TenantSettings = field(default_factory=TenantSettings)
    listener: Mapping[str, ListenerSettings] = field(default_factory=dict)
    """By the listeners' names, in capitals."""

    def __post_init__(self) -> None:
        listeners = self.listeners
        by_token = [one.name for one in listeners if "OAUTHBEARER" in one.mechanisms and one.protocol.has_sasl]
        if by_token and not self.security.has_tokens:
            raise SettingsError(
                f"clients of {by_token[0]} log in by OAUTHBEARER: set security.oauthbearer_jwks_file or "
                "security.oauthbearer_jwks_endpoint_url"
            )
        if self.cluster.internal_listen:
            self._check_internal(listeners)
        if self.cluster.is_single:
            self._check_single(listeners)
        if self.kafka.authorizer == "pulsar" and self.cluster.is_single and not self.pulsar.proxy_token_file:
            raise SettingsError(
                'kafka.authorizer = "pulsar" and cluster.addressing = "single" need pulsar.proxy_token_file: clients\' '
                "tokens are not passed on to other nodes"
            )
        self.tenants.check_authorizer(self.kafka.authorizer)
        self.tenants.check_listeners({one.name: not one.has_login for one in listeners}, self.pulsar.full_namespace)
        self._check_state(self.pulsar.full_state_namespace)
        self._check_places(listeners)

    def _check_places(self, listeners: Sequence[ListenerPlan]) -> None:
        """The listeners have looked at each other; here are the others."""
        short = not self.kafka.listeners
        places = [("kafka.listen" if short else f"{one.name} of kafka.listeners", one.listen) for one in listeners]
        others = {"cluster.internal_listen": self.cluster.internal_listen, "http.listen": self.http.listen}
        for name, place in ((name, Address.parse(where)) for name, where in others.items() if where):
            for other, where in places:
                if place.port and _overlap(place, where):
                    raise SettingsError(f"{other} and {name} have the same port {place.port}: give each one of its own")
            places.append((name, place))

    def _check_state(self, namespace: str) -> None:
        if namespace == self.pulsar.full_namespace:
            raise SettingsError(
                f"pulsar.state_namespace = {namespace} is where clients' topics are: who may produce there could make "
                "itself an administrator of the bridge. Give it one of its own"
            )
        if self.tenants.leads_to(namespace):
            raise SettingsError(f"tenants.rules leads clients to pulsar.state_namespace = {namespace}")

    @property
    def has_rights(self) -> bool:
        """Whether some clients may do more than others, by their log-in or by permissions."""
        return self.kafka.authorizer != "none" or any(one.has_login for one in self.listeners)

    @property
    def keeps_users(self) -> bool:
        """Whether the users that log in are kept in Pulsar."""
        return not self.security.password_file and any(one.protocol.has_sasl for one in self.listeners)

    @property
    def listeners(self) -> tuple[ListenerPlan, ...]:
        """Where clients connect; the first is what logs and tools show."""
        kafka = self.kafka
        if kafka.listeners:
            if kafka.advertised or kafka.listen != _DEFAULT_LISTEN:
                raise SettingsError(
                    "kafka.listeners is set, and so is kafka.listen or kafka.advertised, which are the short form of "
                    "one listener: keep one of the two forms"
                )
            return self._planned(kafka.listeners, kafka.advertised_listeners)
        if kafka.advertised_listeners:
            raise SettingsError("kafka.advertised_listeners is set without kafka.listeners")
        advertised = f"{SHORT_FORM}://{kafka.advertised}" if kafka.advertised else ""
        return self._planned(f"{SHORT_FORM}://{kafka.listen}", advertised)

    def _planned(self, listeners: str, advertised: str) -> tuple[ListenerPlan, ...]:
        kafka = self.kafka
        protocols, usual = kafka.listener_security_protocol_map, kafka.sasl_enabled_mechanisms
        return plan_listeners(listeners, advertised, protocols, usual, self.listener)

    def with_listeners(self, where: Mapping[str, tuple[Address, Address]], **kafka: Any) -> "Settings":
        """A copy whose listeners are elsewhere, by their names: where each listens, and what clients are told. With
        other values of `kafka`."""
        if self.kafka.listeners:
            listen = ",".join(f"{name}://{listen}" for name, (listen, _) in where.items())
            told = ",".join(f"{name}://{told}" for name, (_, told) in where.items())
            return self.with_values(kafka={"listeners": listen, "advertised_listeners": told, **kafka})
        ((listens, advertised),) = where.values()
        return self.with_values(kafka={"listen": str(listens), "advertised": str(advertised), **kafka})

    def _check_single(self, listeners: Sequence[ListenerPlan]) -> None:
        for one in listeners:
            if one.advertised is None:
                what = "kafka.advertised" if not self.kafka.listeners else f"{one.name} in kafka.advertised_listeners"
                raise SettingsError(f'cluster.addressing = "single" needs {what}: the one address of all nodes')

    def _check_internal(self, listeners: Sequence[ListenerPlan]) -> None:
        if any(one.name == INTERNAL for one in listeners):
            raise SettingsError(
                f"the name {INTERNAL} is that of cluster.internal_listen: give the listener in kafka.listeners another "
                "one"
            )
        internal = Address.parse(self.cluster.internal_listen).host
        apart = bool(self.tenants.rules) or any(one.has_login for one in listeners)
        if apart and not (self.cluster.internal_secret_file or is_loopback(internal)):
            raise SettingsError(
                "clients log in or have namespaces, but any machine that reaches cluster.internal_listen could act for "
                "them there: set cluster.internal_secret_file, the same on all nodes"
            )
        if self.kafka.workers != 1:
            raise SettingsError(
                f"kafka.workers = {self.kafka.workers} and cluster.internal_listen do not go together: start several "
                "nodes, each with a cluster.internal_listen of its own"
            )

    def with_values(self, **sections: Mapping[str, Any]) -> "Settings":
        """A copy with some values changed: `with_values(kafka={"node_id": 1})`; unknown names are refused."""
        changed: dict[str, Any] = {}
        for section, values in sections.items():
            if section == "listener":
                changed[section] = self._with_listeners(values)
                continue
            known = fields_of(SECTIONS[known_name(section, (*SECTIONS, "listener"), "section", (section,))])
            for name, value in values.items():
                check_type(section, known[known_name(name, known, f"setting {section}.", (section, name))], value)
            try:
                changed[section] = replace(getattr(self, section), **values)
            except SettingsError as error:
                raise SettingsError(str(error), error.at or (section,)) from None
        return replace(self, **changed)

    def _with_listeners(self, tables: Mapping[str, Any]) -> dict[str, ListenerSettings]:
        made = dict(self.listener)
        for name, values in tables.items():
            if not isinstance(values, Mapping):
                raise SettingsError(f"listener.{name} stands outside a table: settings of a listener are in "
                                    "[listener.NAME]")  # fmt: skip
            known = fields_of(ListenerSettings)
            for setting, value in values.items():
                label = f"listener.{name}"
                at = ("listener", name, setting)
                check_type(label, known[known_name(setting, known, f"setting {label}.", at)], value)
            try:
                made[name.upper()] = replace(made.get(name.upper(), ListenerSettings()), **values)
            except SettingsError as error:
                told = str(error).replace("listener.", f"listener.{name}.", 1)
                raise SettingsError(told, error.at and ("listener", name, error.at[-1])) from None
        return made

    def to_toml(self) -> str:
        """The settings as a TOML file that `load` reads back; it holds the token, so keep it private."""
        sections = asdict(self)
        lines: list[str] = []
        sections |= {f"listener.{name}": values for name, values in sections.pop("listener").items()}
        for section, values in sections.items():
            lines += [f"[{section}]", *(f"{name} = {toml_value(value)}" for name, value in values.items()), ""]
        return "\n".join(lines)


SECTIONS: dict[str, type] = {f.name: f.default_factory for f in fields(Settings)}  # type: ignore[misc]
"""Those with one table each."""
del SECTIONS["listener"]
