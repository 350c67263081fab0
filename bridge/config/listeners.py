"""The listeners: what `kafka.listeners` and its kin say, each with the settings of its own table `[listener.NAME]`."""

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

from bridge.config.rules import (
    Address,
    check_rules,
    entries,
    integer,
    is_every_interface,
    one_of,
    readable_file,
    secret_file,
    text,
)
from bridge.config.tls import BOTH, SERVER, TlsLimits, cipher_suites, protocols
from bridge.errors import SettingsError

T = TypeVar("T")

SHORT_FORM: Final = "PLAINTEXT"
"""The name of the one listener of `kafka.listen`."""
INTERNAL: Final = "INTERNAL"
"""What the nodes call the listener of `cluster.internal_listen`."""
_EVERY_INTERFACE = "0.0.0.0"  # noqa: S104 - only where it is asked for
_OTHER_PROTOCOL: Final = "set kafka.listener_security_protocol_map = "
_ENTRY = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]*)://(.*)")


class SecurityProtocol(StrEnum):
    """How the clients of a listener are protected, in Kafka's words."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        """Whether clients log in by SASL."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
PROTOCOLS: Final = {protocol.value: protocol for protocol in SecurityProtocol}


def mechanisms(default: str) -> str:
    """A setting that names mechanisms."""
    known = ", ".join(MECHANISMS)
    return text(default, f"{known}, several by commas", lambda value: set(entries(value)) <= set(MECHANISMS))


@dataclass(frozen=True, slots=True)
class ListenerSettings:
    """The settings that one listener has for itself."""

    allow_anonymous: bool = False
    sasl_enabled_mechanisms: str = mechanisms("")
    connections_max_reauth_ms: int = integer(0, 0)
    max_connections: int = integer(0, 0)
    worker_port: int = integer(0, 0, 65_535)
    ssl_certificate_file: str = readable_file()
    ssl_key_file: str = secret_file()
    ssl_keystore_file: str = secret_file()
    ssl_key_password_file: str = secret_file()
    ssl_client_auth: str = one_of("none", "none", "requested", "required")
    ssl_client_ca_file: str = readable_file()
    ssl_client_crl_file: str = readable_file()
    ssl_principal_mapping_rules: str = "DEFAULT"
    ssl_enabled_protocols: str = protocols()
    ssl_cipher_suites: str = cipher_suites()

    def __post_init__(self) -> None:
        check_rules("listener", self)

    @property
    def tls_limits(self) -> TlsLimits:
        """Which versions and suites clients may use."""
        return TlsLimits(self.ssl_enabled_protocols, self.ssl_cipher_suites)

    @property
    def has_tls_settings(self) -> bool:
        """Whether anything is said about TLS."""
        files = (
            self.ssl_certificate_file, self.ssl_key_file, self.ssl_keystore_file, self.ssl_key_password_file,
            self.ssl_client_ca_file, self.ssl_client_crl_file,
        )  # fmt: skip
        return any(files) or self.ssl_client_auth != "none" or self.tls_limits != TlsLimits(BOTH, "")


@dataclass(frozen=True, slots=True)
class ListenerPlan:
    """All that the settings say about one listener, put together."""

    name: str
    protocol: SecurityProtocol
    listen: Address
    advertised: Address | None
    """What clients are told; None: where it listens, its port found."""
    settings: ListenerSettings
    mechanisms: tuple[str, ...]
    """By which clients log in; none where they do not."""

    @property
    def has_login(self) -> bool:
        """Whether every client has to say who it is."""
        return self.protocol.has_sasl or (self.protocol.has_tls and self.settings.ssl_client_auth == "required")

    @property
    def is_exposed(self) -> bool:
        """Whether others than this machine can reach it."""
        return not is_loopback(self.listen.host)

    def told(self, port: int) -> Address:
        """What clients are told, where it listens on this port."""
        return self.advertised or Address(self.listen.host, port)


def parse_listeners(text: str) -> dict[str, Address]:
    """`NAME://host:port,...` by name; ValueError says what is wrong. No host is every interface, as in Kafka."""
    found: dict[str, Address] = {}
    for entry in entries(text):
        match = _ENTRY.fullmatch(entry)
        if match is None:
            raise ValueError(f"{entry!r} is not NAME://host:port, as PLAINTEXT://127.0.0.1:9092")
        name, where = match[1].upper(), match[2]
        if name in found:
            raise ValueError(f"{name} is there twice")
        try:
            found[name] = Address.parse(f"{_EVERY_INTERFACE}{where}" if where.startswith(":") else where)
        except ValueError:
            raise ValueError(f"{entry!r} is not NAME://host:port") from None
    return found


def parse_protocols(text: str) -> dict[str, SecurityProtocol]:
    """`NAME:PROTOCOL,...` by name; ValueError says what is wrong."""
    found: dict[str, SecurityProtocol] = {}
    for entry in entries(text):
        name, colon, protocol = (part.strip() for part in entry.partition(":"))
        if not name or not colon or protocol.upper() not in PROTOCOLS:
            raise ValueError(f"{entry!r} is not NAME:PROTOCOL, with one of {', '.join(SecurityProtocol)}")
        if name.upper() in found:
            raise ValueError(f"{name} is there twice")
        found[name.upper()] = SecurityProtocol(protocol.upper())
    return found


def plan_listeners(
    listeners: str, advertised: str, protocols: str, usual_mechanisms: str, tables: Mapping[str, ListenerSettings]
) -> tuple[ListenerPlan, ...]:
    """The listeners in the order of `listeners`; SettingsError where they do not go together."""
    found = _parsed("kafka.listeners", parse_listeners, listeners)
    told = _parsed("kafka.advertised_listeners", parse_listeners, advertised)
    known = PROTOCOLS | _parsed("kafka.listener_security_protocol_map", parse_protocols, protocols)
    _check_ports(found)
    for setting, names in (("kafka.advertised_listeners", told), ("[listener] has a table for it:", tables)):
        for name in names:
            if name not in found:
                raise SettingsError(
                    f"{setting} {name} is not in kafka.listeners, which has {', '.join(found)}: use one of these "
                    "names, or add a listener"
                )
    plans = []
    for name, where in found.items():
        if name not in known:
            raise SettingsError(
                f"kafka.listeners has {name}, which names no security protocol: say which it is by "
                f'kafka.listener_security_protocol_map = "{name}:{SecurityProtocol.PLAINTEXT}"'
            )
        _check_told(name, where, told.get(name))
        settings = tables.get(name, ListenerSettings())
        offered = entries(settings.sasl_enabled_mechanisms or usual_mechanisms) if known[name].has_sasl else ()
        plan = ListenerPlan(name, known[name], where, told.get(name), settings, tuple(dict.fromkeys(offered)))
        _check_tls(plan)
        _check_sasl(plan)
        plans.append(plan)
    return tuple(plans)


def _parsed(setting: str, parse: Callable[[str], dict[str, T]], text: str) -> dict[str, T]:
    try:
        return parse(text)
    except ValueError as error:
        raise SettingsError(f'{setting} = "{text}": {error}') from None


def _check_ports(listeners: Mapping[str, Address]) -> None:
    """Ports are unique, but for a pair of an IPv4 and an IPv6 address (KIP-797)."""
    taken: dict[tuple[int, int], str] = {}
    for name, (host, port) in listeners.items():
        kind = _ip_version(host)
        for (other_port, other_kind), other in taken.items():
            if port and port == other_port and not {kind, other_kind} == {4, 6}:
                raise SettingsError(
                    f"kafka.listeners: {other} and {name} have the same port {port}: give each one of its own"
                )
        taken[port, kind] = name


def _check_told(name: str, listen: Address, told: Address | None) -> None:
    if told is None and is_every_interface(str(listen)):
        raise SettingsError(
            f"kafka.listeners: {name} is at {listen}, every interface, which clients cannot be told to connect to: "
            f"set kafka.advertised_listeners to {name}:// and the host:port they should use"
        )
    if told is not None and (is_every_interface(str(told)) or (listen.port and not told.port)):
        raise SettingsError(
            f"kafka.advertised_listeners: clients cannot connect to {told}, which {name} tells them: set the host:port "
            "they should use (kafka.advertised, where kafka.listen is set)"
        )


def _check_tls(plan: ListenerPlan) -> None:
    settings, table = plan.settings, f"listener.{plan.name}"
    if not plan.protocol.has_tls:
        if settings.has_tls_settings:
            raise SettingsError(
                f"{table} has settings of TLS, but its security protocol is {plan.protocol}: {_OTHER_PROTOCOL}"
                f'"{plan.name}:{SecurityProtocol.SASL_SSL if plan.protocol.has_sasl else SecurityProtocol.SSL}", '
                "or take them out"
            )
        return
    missing = "" if SERVER.check(table, settings) else SERVER.certificate
    if settings.ssl_client_auth != "none" and not settings.ssl_client_ca_file:
        missing = missing or "ssl_client_ca_file"
    if missing:
        raise SettingsError(f"the security protocol of {plan.name} is {plan.protocol}: set {table}.{missing}")
    if settings.ssl_client_crl_file and settings.ssl_client_auth == "none":
        raise SettingsError(f'{table}.ssl_client_crl_file means nothing with ssl_client_auth = "none"')
    settings.tls_limits.check(table)


def _check_sasl(plan: ListenerPlan) -> None:
    table = f"listener.{plan.name}"
    if plan.protocol.has_sasl:
        if plan.settings.allow_anonymous:
            raise SettingsError(f"{table}.allow_anonymous = true, but its security protocol is {plan.protocol}")
        if not plan.mechanisms:
            raise SettingsError(f"{table} has no mechanism: set kafka.sasl_enabled_mechanisms or the listener's own")
    elif plan.settings.sasl_enabled_mechanisms or plan.settings.connections_max_reauth_ms:
        raise SettingsError(
            f"{table} has settings of log-in, but its security protocol is {plan.protocol}: {_OTHER_PROTOCOL}"
            f'"{plan.name}:{SecurityProtocol.SASL_SSL if plan.protocol.has_tls else SecurityProtocol.SASL_PLAINTEXT}", '
            "or take them out"
        )


def _ip_version(host: str) -> int:
    """4 or 6; 0 of a name."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).version
    except ValueError:
        return 0


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect there."""
    return host == "localhost" or (_ip_version(host) != 0 and ipaddress.ip_address(host.partition("%")[0]).is_loopback)
