"""The settings of Pulsar's side: where it is, who the bridge is there, and whom it believes."""

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from bridge.config.hosts import parse_hosts
from bridge.config.rules import (
    check_rules,
    integer,
    is_admin_url,
    is_service_url,
    parses,
    pulsar_name,
    readable_file,
    seconds,
    secret_file,
    text,
    why_no_url,
)
from bridge.config.tls import CLIENT, TlsLimits, cipher_suites, protocols
from bridge.errors import SettingsError

STATE_PREFIX: Final = "__bridge_"
"""The topics of the bridge's own: no topic that Kafka clients see has such a name."""
_ISSUER: Final = "https://..., or http:// on this machine"
_OF_THE_PLACE: Final = (
    "service_url", "admin_url", "tenant", "namespace", "listener_name", "allowed_hosts", "tls_ca_file",
    "tls_verify_hostname", "tls_allow_insecure", "tls_protocols", "tls_ciphers",
    "connect_timeout_seconds", "operation_timeout_seconds",
    "keepalive_seconds", "max_pending_bytes", "max_producer_connections",
)  # fmt: skip
"""Settings that say where Pulsar is and how it is known. All others are the bridge's alone."""
_NAMESPACE: Final = re.compile(r"[-=:.\w]+/[-=:.\w]+", re.ASCII)


def is_namespace(name: str) -> bool:
    """Whether it is `tenant/namespace`."""
    return _NAMESPACE.fullmatch(name) is not None


def is_secret_url(url: str) -> bool:
    """Whether a secret may be sent there: by https, or to this machine."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    return (
        bool(parts.hostname) and not parts.username and (parts.scheme == "https" or (parts.scheme == "http" and local))
    )


@dataclass(frozen=True, slots=True)
class PulsarSettings:
    """The Pulsar that holds the data, and how to log in to it."""

    service_url: str = text(
        "pulsar://127.0.0.1:6650",
        "pulsar://host:port or pulsar+ssl://host:port, more hosts by commas",
        is_service_url,
        why_no_url,
    )
    admin_url: str = text(
        "http://127.0.0.1:8080",
        "http://host:port or https://host:port, more hosts by commas",
        is_admin_url,
        why_no_url,
    )
    tenant: str = pulsar_name("public")
    namespace: str = pulsar_name("default")
    state_namespace: str = text("", 'tenant/namespace, or "" for the one beside', lambda v: not v or is_namespace(v))
    state_roles: str = ""
    trust_state_namespace: bool = False
    listener_name: str = ""
    allowed_hosts: str = text(
        "", "names (* stands for any part), addresses and networks, by commas", lambda value: parses(parse_hosts, value)
    )
    token: str = field(default="", repr=False, metadata={"secret": True})
    token_file: str = secret_file()
    proxy_token_file: str = secret_file()
    token_auth_claim: str = "sub"  # noqa: S105 - the name of a claim
    token_public_key_file: str = readable_file()
    oauth2_key_file: str = secret_file()
    oauth2_issuer_url: str = text("", _ISSUER, lambda url: not url or is_secret_url(url))
    oauth2_token_url: str = text("", _ISSUER, lambda url: not url or is_secret_url(url))
    oauth2_audience: str = ""
    oauth2_scope: str = ""
    oauth2_ca_file: str = readable_file()
    tls_ca_file: str = readable_file()
    tls_cert_file: str = readable_file()
    tls_key_file: str = secret_file()
    tls_keystore_file: str = secret_file()
    tls_key_password_file: str = secret_file()
    tls_protocols: str = protocols()
    tls_ciphers: str = cipher_suites()
    tls_verify_hostname: bool = True
    tls_allow_insecure: bool = False
    connect_timeout_seconds: float = seconds(10)
    operation_timeout_seconds: float = seconds(30)
    keepalive_seconds: float = seconds(30)
    wait_seconds: int = integer(0, 0)
    max_pending_bytes: int = integer(67_108_864, 1024)
    max_producer_connections: int = integer(2000, 1)

    def __post_init__(self) -> None:
        check_rules("pulsar", self)
        self._check_login()
        CLIENT.check("pulsar", self)
        self.tls_limits.check("pulsar")

    def without_identity(self) -> "PulsarSettings":
        """The same Pulsar, for others than the bridge: nothing is left by which it says who it is."""
        return PulsarSettings(**{name: getattr(self, name) for name in _OF_THE_PLACE})

    def _check_login(self) -> None:
        ways = [name for name in ("token", "token_file", "oauth2_key_file") if getattr(self, name)]
        if len(ways) > 1:
            raise SettingsError(f"pulsar.{ways[0]} and pulsar.{ways[1]} are both set: keep one of them")
        if self.token.startswith(("token:", "file:")):  # AuthenticationToken.configure
            raise SettingsError(
                "pulsar.token begins as authParams of Pulsar's clients do: set it to what stands behind token:, or "
                "pulsar.token_file to the path behind file://"
            )
        if self.oauth2_issuer_url and self.oauth2_token_url:
            raise SettingsError("pulsar.oauth2_issuer_url and pulsar.oauth2_token_url are both set: keep one of them")
        if self.oauth2_key_file:
            return
        for name in ("issuer_url", "token_url", "audience", "scope", "ca_file"):
            if getattr(self, f"oauth2_{name}"):
                raise SettingsError(f"pulsar.oauth2_{name} is set without pulsar.oauth2_key_file")

    @property
    def tls_limits(self) -> TlsLimits:
        """Which versions and suites are used towards Pulsar."""
        return TlsLimits(self.tls_protocols, self.tls_ciphers)

    @property
    def has_certificate(self) -> bool:
        """Whether the bridge has a certificate of its own."""
        return bool(self.tls_cert_file or self.tls_keystore_file)

    @property
    def full_namespace(self) -> str:
        """`tenant/namespace`, as Pulsar writes it."""
        return f"{self.tenant}/{self.namespace}"

    @property
    def full_state_namespace(self) -> str:
        """`tenant/namespace` of what the bridge believes: no client has any business there."""
        return self.state_namespace or f"{self.full_namespace}-bridge"

    def state_topic(self, name: str) -> str:
        """The full name of one of the bridge's own topics.

        Where the state is not in the place beside its data, its name says of which namespace it is: tenants' groups and
        another bridge's views may be in the same place. No tenant's or namespace's name has a tilde.
        """
        beside = self.full_state_namespace == f"{self.full_namespace}-bridge"
        of = "" if beside else f"~{self.tenant}~{self.namespace}~"
        return f"persistent://{self.full_state_namespace}/{STATE_PREFIX}{name}{of}"

    def old_state_topic(self, name: str) -> str:
        """Where bridges had it that kept their state among the data."""
        return f"persistent://{self.full_namespace}/{STATE_PREFIX}{name}"
