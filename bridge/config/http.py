"""The settings of the operator's side: metrics and health."""

import re
from dataclasses import dataclass, field

from bridge.config.rules import address, check_rules, integer, readable_file, secret_file
from bridge.config.tls import SERVER, TlsLimits, cipher_suites, protocols
from bridge.errors import SettingsError

_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750, 2.1


def is_bearer_token(text: str) -> bool:
    """Whether a header can have it."""
    return _TOKEN.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """The operator's side: metrics and health."""

    listen: str = address("127.0.0.1:7092")
    ssl_certificate_file: str = readable_file()
    ssl_key_file: str = secret_file()
    ssl_keystore_file: str = secret_file()
    ssl_key_password_file: str = secret_file()
    ssl_enabled_protocols: str = protocols()
    ssl_cipher_suites: str = cipher_suites()
    token: str = field(default="", repr=False, metadata={"secret": True})
    token_file: str = secret_file()
    max_connections: int = integer(64, 1)
    max_connections_per_ip: int = integer(16, 1)
    max_topics_in_metrics: int = integer(200, 0)
    max_clients_in_metrics: int = integer(50, 0)
    principals_in_metrics: bool = False
    show_records: bool = False

    def __post_init__(self) -> None:
        check_rules("http", self)
        SERVER.check("http", self)
        TlsLimits(self.ssl_enabled_protocols, self.ssl_cipher_suites).check("http")
        if self.token and self.token_file:
            raise SettingsError("http.token and http.token_file are both set: keep one of them")
        if self.show_records and not self.has_token:
            raise SettingsError("http.show_records shows records to whoever may ask: set http.token or http.token_file")
        if self.token and not is_bearer_token(self.token):
            raise SettingsError("http.token: must be letters, digits and - . _ ~ + /, then perhaps =")

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return bool(self.ssl_certificate_file or self.ssl_keystore_file)

    @property
    def has_token(self) -> bool:
        """Whether a token is asked for."""
        return bool(self.token or self.token_file)

    @property
    def url(self) -> str:
        """Where it is."""
        return f"{'https' if self.has_tls else 'http'}://{self.listen}"
