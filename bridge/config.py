"""The settings: what each may be, read from a TOML file with the environment over it, refused by name when wrong."""

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from bridge.errors import SettingsError

ENV_PREFIX = "BRIDGE_"
# Read elsewhere (the tests' own Pulsar, the codec's twin), so no setting of ours and no mistake of the operator's.
OTHER_VARIABLES = ("BRIDGE_TEST_", "BRIDGE_CODEC")
# Kubernetes injects these for every Service of the namespace; one named "bridge" must not stop our start.
_SERVICE_LINK = re.compile(r"_SERVICE_HOST$|_SERVICE_PORT(_\w+)?$|_PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?$")
_PULSAR_NAME = re.compile(r"[-=:.\w]+", re.ASCII)  # org.apache.pulsar.common.naming.NamedEntity
_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1


class Address(NamedTuple):
    """A host and a port, as `host:port` or `[ipv6]:port` says them."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Split `host:port`; ValueError when it is anything else."""
        host, colon, port = text.rpartition(":")
        if not colon or not port.isascii() or not port.isdecimal() or int(port) > 65535:
            raise ValueError(text)
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            raise ValueError(text)
        if not host or any(c.isspace() or c in "/@[]" for c in host):
            raise ValueError(text)
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class _Rule(NamedTuple):
    """What a setting may be: the words for the operator, and the test."""

    allowed: str
    holds: Callable[[Any], bool]


def _parses(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


def _address(default: str, *, optional: bool = False) -> str:
    allowed = "host:port, IPv6 as [host]:port" + (', or "" for the same as listen' if optional else "")
    return field(
        default=default,
        metadata={"rule": _Rule(allowed, lambda v: (optional and v == "") or _parses(Address.parse, v))},
    )


def _integer(default: int, low: int, high: int = _INT64_MAX, *, unlimited: bool = False) -> int:
    allowed = f"an integer from {low} to {high}" if high != _INT64_MAX else f"an integer of at least {low}"
    if unlimited:
        allowed += ", or -1 for no limit"
    return field(
        default=default,
        metadata={"rule": _Rule(allowed, lambda v: low <= v <= high or (unlimited and v == -1))},
    )


def _seconds(default: float) -> float:
    # A day is more than any of these timeouts can mean; NaN fails both comparisons.
    return field(
        default=default, metadata={"rule": _Rule("seconds, above 0 and at most 86400", lambda v: 0 < v <= 86400)}
    )


def _one_of(default: str, *choices: str) -> str:
    allowed = "one of " + ", ".join(f'"{choice}"' for choice in choices)
    return field(default=default, metadata={"rule": _Rule(allowed, lambda v: v in choices)})


def _pulsar_name(default: str) -> str:
    rule = _Rule("letters, digits and - = : . _", lambda v: _PULSAR_NAME.fullmatch(v) is not None)
    return field(default=default, metadata={"rule": rule})


def _readable(path: str) -> bool:
    return path == "" or (os.path.isfile(path) and os.access(path, os.R_OK))


def _file() -> str:
    return field(default="", metadata={"rule": _Rule("a file this process can read", _readable)})


def _is_service_url(url: str) -> bool:
    scheme, _, rest = url.partition("://")
    hosts = rest.removesuffix("/").split(",")
    return scheme in ("pulsar", "pulsar+ssl") and all(_parses(Address.parse, h) and h[-2:] != ":0" for h in hosts)


def _is_admin_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and not parts.query
    except ValueError:
        return False


def _text(default: str, allowed: str, holds: Callable[[str], bool]) -> str:
    return field(default=default, metadata={"rule": _Rule(allowed, holds)})


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """The side Kafka clients see."""

    listen: str = _address("127.0.0.1:9092")
    advertised: str = _address("", optional=True)
    node_id: int = _integer(0, 0, _INT32_MAX)
    max_request_bytes: int = _integer(104_857_600, 1024, _INT32_MAX)
    max_connections: int = _integer(10_000, 1)
    idle_seconds: float = _seconds(600)
    max_in_flight_requests: int = _integer(64, 1)
    auto_create_topics: bool = True
    default_partitions: int = _integer(1, 1, 10_000)
    max_fetch_bytes: int = _integer(57_671_680, 1024, _INT32_MAX)
    memory_budget_bytes: int = _integer(268_435_456, 1024)

    def __post_init__(self) -> None:
        _check_rules("kafka", self)
        if self.memory_budget_bytes < self.max_request_bytes:
            raise SettingsError(
                f"kafka.memory_budget_bytes = {self.memory_budget_bytes} is below kafka.max_request_bytes = "
                f"{self.max_request_bytes}: a request of the allowed size could never be taken in"
            )
        if not self.advertised and Address.parse(self.listen).host in ("0.0.0.0", "::"):  # noqa: S104 - it is refused
            raise SettingsError(
                f'kafka.listen = "{self.listen}" is every interface, which clients cannot be told to connect to: '
                "set kafka.advertised to the host:port they should use"
            )


@dataclass(frozen=True, slots=True)
class PulsarSettings:
    """The Pulsar that holds the data, and how to log in to it."""

    service_url: str = _text(
        "pulsar://127.0.0.1:6650", "pulsar://host:port or pulsar+ssl://host:port, more hosts by commas", _is_service_url
    )
    admin_url: str = _text("http://127.0.0.1:8080", "http://host:port or https://host:port", _is_admin_url)
    tenant: str = _pulsar_name("public")
    namespace: str = _pulsar_name("default")
    listener_name: str = ""
    token: str = field(default="", repr=False, metadata={"secret": True})
    token_file: str = _file()
    tls_ca_file: str = _file()
    tls_cert_file: str = _file()
    tls_key_file: str = _file()
    tls_verify_hostname: bool = True
    tls_allow_insecure: bool = False
    connect_timeout_seconds: float = _seconds(10)
    operation_timeout_seconds: float = _seconds(30)
    keepalive_seconds: float = _seconds(30)
    max_pending_bytes: int = _integer(67_108_864, 1024)

    def __post_init__(self) -> None:
        _check_rules("pulsar", self)
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
class RetentionSettings:
    """What is kept of records that no Pulsar subscription holds."""

    ensure: bool = True
    minutes: int = _integer(10_080, 1, _INT32_MAX, unlimited=True)
    megabytes: int = _integer(-1, 1, _INT32_MAX, unlimited=True)

    def __post_init__(self) -> None:
        _check_rules("retention", self)


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """How partitions are read and cached."""

    tail_cache_bytes: int = _integer(134_217_728, 0)
    tail_idle_seconds: float = _seconds(60)
    reader_queue_messages: int = _integer(1000, 1, _INT32_MAX)
    reader_buffer_bytes: int = _integer(8_388_608, 1024)
    max_catchup_readers: int = _integer(64, 1)

    def __post_init__(self) -> None:
        _check_rules("storage", self)


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Consumer groups: their coordinator, their committed offsets and what is shown of them."""

    slots: int = _integer(8, 1, 1024)
    initial_rebalance_delay_ms: int = _integer(100, 0, _INT32_MAX)
    min_session_timeout_ms: int = _integer(6000, 1, _INT32_MAX)
    max_session_timeout_ms: int = _integer(1_800_000, 1, _INT32_MAX)
    offsets_retention_minutes: int = _integer(10_080, 1, _INT32_MAX)
    max_offset_metadata_bytes: int = _integer(4096, 0, _INT32_MAX)
    compact_after_writes: int = _integer(100_000, 1)
    max_groups_in_metrics: int = _integer(200, 0)
    mirror_pattern: str = _text("", "a regular expression (Python's)", _is_pattern)

    def __post_init__(self) -> None:
        _check_rules("groups", self)
        if self.min_session_timeout_ms > self.max_session_timeout_ms:
            raise SettingsError(
                f"groups.min_session_timeout_ms = {self.min_session_timeout_ms} is above "
                f"groups.max_session_timeout_ms = {self.max_session_timeout_ms}: no session timeout could be allowed"
            )


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """The operator's side: metrics and health."""

    listen: str = _address("127.0.0.1:9308")

    def __post_init__(self) -> None:
        _check_rules("http", self)


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What is logged, and how."""

    level: str = _one_of("info", "debug", "info", "warning", "error")
    format: str = _one_of("text", "text", "json")

    def __post_init__(self) -> None:
        _check_rules("log", self)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything the bridge can be told; one object, passed in, never changed."""

    kafka: KafkaSettings = field(default_factory=KafkaSettings)
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
            known = _fields_of(_SECTIONS[_known(section, _SECTIONS, "section")])
            for name, value in values.items():
                _check_type(section, known[_known(name, known, f"setting {section}.")], value)
            changed[section] = replace(getattr(self, section), **values)
        return replace(self, **changed)

    def to_toml(self) -> str:
        """The settings as a TOML file that `load` reads back; it holds the token, so keep it private."""
        sections = asdict(self)
        lines: list[str] = []
        for section, values in sections.items():
            lines += [f"[{section}]", *(f"{name} = {_toml_value(value)}" for name, value in values.items()), ""]
        return "\n".join(lines)


_SECTIONS: dict[str, type] = {f.name: f.default_factory for f in fields(Settings)}  # type: ignore[misc]


def load(path: Path | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Read the file, put the environment (BRIDGE_<SECTION>_<NAME>) over it and check everything."""
    values: dict[str, dict[str, Any]] = {}
    if path is not None:
        values = _read_file(path)
    try:
        settings = Settings().with_values(
            **_merge(values, _read_environment(os.environ if environ is None else environ))
        )
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}" if path is not None else str(error)) from None
    return settings


def _merge(*layers: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    merged: dict[str, dict[str, Any]] = {}
    for layer in layers:
        for section, values in layer.items():
            merged.setdefault(section, {}).update(values)
    return merged


def _read_file(path: Path) -> dict[str, dict[str, Any]]:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: cannot read the settings: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not TOML: {error}") from None
    for section, content in values.items():
        if not isinstance(content, dict):
            raise SettingsError(f"{path}: {section} stands outside a section; sections are {_list(_SECTIONS)}")
    return values


def _read_environment(environ: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    values: dict[str, dict[str, Any]] = {}
    for variable in sorted(environ):
        if not variable.startswith(ENV_PREFIX) or variable.startswith(OTHER_VARIABLES):
            continue
        if _SERVICE_LINK.search(variable):
            continue
        section, _, name = variable.removeprefix(ENV_PREFIX).lower().partition("_")
        known = {f"{ENV_PREFIX}{s}_{n}".upper(): f for s, c in _SECTIONS.items() for n, f in _fields_of(c).items()}
        _known(variable, known, "environment variable ")
        values.setdefault(section, {})[name] = _from_text(variable, known[variable], environ[variable])
    return values


def _from_text(variable: str, setting: "Field[Any]", text: str) -> object:
    if setting.type is bool:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise SettingsError(f'{variable} = "{text}": must be true or false')
    if setting.type in (int, float):
        try:
            return int(text) if setting.type is int else float(text)
        except ValueError:
            raise SettingsError(f'{variable} = "{text}": must be {_allowed(setting)}') from None
    return text


def _fields_of(section: type) -> "dict[str, Field[Any]]":
    return {f.name: f for f in fields(section)}


def _known(name: str, names: Iterable[str], what: str) -> str:
    if name in names:
        return name
    label = f"{what}{name}" if what.endswith((".", " ")) else f"{what} [{name}]"
    known = list(names)
    close = difflib.get_close_matches(name, known, n=1)
    everything = f"known are {_list(known)}" if len(known) < 20 else "config/bridge.toml lists every setting"
    hint = f"did you mean {close[0]}?" if close else everything
    raise SettingsError(f"unknown {label}; {hint}")


def _list(names: Iterable[str]) -> str:
    return ", ".join(names)


def _allowed(setting: "Field[Any]") -> str:
    rule: _Rule | None = setting.metadata.get("rule")
    kinds: dict[Any, str] = {bool: "true or false", int: "an integer", float: "a number", str: "a string"}
    return rule.allowed if rule else kinds[setting.type]


def _shown(setting: "Field[Any]", value: object) -> str:
    return "(not shown)" if setting.metadata.get("secret") else _toml_value(value)


def _check_type(section: str, setting: "Field[Any]", value: object) -> None:
    # bool is an int to Python, but `node_id = true` is a mistake.
    wanted = (int, float) if setting.type is float else setting.type
    if not isinstance(value, wanted) or (isinstance(value, bool) and setting.type is not bool):  # type: ignore[arg-type]
        raise SettingsError(f"{section}.{setting.name} = {_shown(setting, value)}: must be {_allowed(setting)}")


def _check_rules(section: str, values: Any) -> None:
    for setting in fields(values):
        value = getattr(values, setting.name)
        _check_type(section, setting, value)
        rule: _Rule | None = setting.metadata.get("rule")
        if rule and not rule.holds(value):
            raise SettingsError(f"{section}.{setting.name} = {_shown(setting, value)}: must be {rule.allowed}")


def _toml_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    escaped = "".join(_toml_character(c) for c in str(value))
    return f'"{escaped}"'


def _toml_character(character: str) -> str:
    if character in '\\"':
        return "\\" + character
    return character if character.isprintable() else f"\\U{ord(character):08x}"
