"""How a client comes in, right or wrong, in the words of each client."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from tests.security.issuer import CLAIMS, part, token
from tests.support.certificates import CertificateFiles

USER, PASSWORD = "alice", "wonder land"
MUTUAL_TLS = "mutual TLS"
PASSWORDS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = (*PASSWORDS, "OAUTHBEARER", MUTUAL_TLS)
RIGHT = "right"
WRONG_PASSWORD, UNKNOWN_USER = "wrong password", "unknown user"
UNSIGNED = "unsigned token"
WRONG: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(PASSWORDS, (WRONG_PASSWORD, UNKNOWN_USER)),
    "OAUTHBEARER": ("expired token", "token signed by another key", UNSIGNED),
    MUTUAL_TLS: ("expired certificate", "certificate of another authority", "no certificate"),
}
CASES = [(mechanism, case) for mechanism in MECHANISMS for case in (RIGHT, *WRONG[mechanism])]


def has_way(client: str, mechanism: str, case: str) -> bool:
    """Whether the client can send it: the tokens that Debian's kcat makes are not signed."""
    return client != "kcat" or mechanism != "OAUTHBEARER" or case == UNSIGNED


SECONDS = 20.0
"""What a client is given to say that it is not let in."""


def _token(seconds: float = 600.0, number: int = 0) -> str:
    now = int(time.time())
    return token({**CLAIMS, "iat": now - 700, "exp": now + int(seconds)}, "RS256", number, kid="one")


def _unsigned() -> str:
    now = int(time.time())
    claims = {**CLAIMS, "iat": now - 1, "exp": now + 600}
    return f"{part(json.dumps({'alg': 'none'}).encode())}.{part(json.dumps(claims).encode())}."


TOKENS: dict[str, Callable[[], str]] = {
    RIGHT: _token,
    "expired token": lambda: _token(-600.0),
    "token signed by another key": lambda: _token(number=1),
    UNSIGNED: _unsigned,
}


@dataclass(frozen=True)
class Way:
    """A mechanism and a case of it, at one server."""

    address: str
    authority: str
    mechanism: str
    case: str
    own: CertificateFiles | None = None

    @property
    def protocol(self) -> str:
        """The listener's security protocol."""
        return "SSL" if self.mechanism == MUTUAL_TLS else "SASL_SSL"

    @property
    def user(self) -> str:
        """As long as the one that is there."""
        return f"x{uuid4().hex[: len(USER) - 1]}" if self.case == UNKNOWN_USER else USER

    @property
    def password(self) -> str:
        """As long as the right one."""
        return "yonder land" if self.case == WRONG_PASSWORD else PASSWORD

    @property
    def token(self) -> str:
        """The one to show now."""
        return TOKENS[self.case]()

    @property
    def has_password(self) -> bool:
        """Whether that is what proves it."""
        return self.mechanism in PASSWORDS

    @property
    def python(self) -> dict[str, Any]:
        """As kafka-python and aiokafka are told; how they get a token differs."""
        context = ssl.create_default_context(cafile=self.authority)
        if self.own is not None:
            context.load_cert_chain(*self.own)
        words = {"bootstrap_servers": self.address, "security_protocol": self.protocol, "ssl_context": context}
        if self.protocol == "SASL_SSL":
            words["sasl_mechanism"] = self.mechanism
        if self.has_password:
            words |= {"sasl_plain_username": self.user, "sasl_plain_password": self.password}
        return words

    @property
    def librdkafka(self) -> dict[str, Any]:
        """As librdkafka is told, but for a token."""
        words = {
            "bootstrap.servers": self.address, "security.protocol": self.protocol, "ssl.ca.location": self.authority,
        }  # fmt: skip
        if self.own is not None:
            words |= {"ssl.certificate.location": self.own.certificate, "ssl.key.location": self.own.key}
        if self.protocol == "SASL_SSL":
            words["sasl.mechanism"] = self.mechanism
        if self.has_password:
            words |= {"sasl.username": self.user, "sasl.password": self.password}
        return words

    @property
    def java(self) -> dict[str, str]:
        """As Java is told."""
        words = {
            "bootstrap.servers": self.address, "security.protocol": self.protocol, "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.authority,
        }  # fmt: skip
        if self.own is not None:
            with open(self.own.key) as key, open(self.own.certificate) as certificate:
                words |= {"ssl.keystore.type": "PEM", "ssl.keystore.key": key.read()}
                words["ssl.keystore.certificate.chain"] = certificate.read()
        if self.protocol == "SASL_SSL":
            words |= {"sasl.mechanism": self.mechanism, "sasl.jaas.config": self._jaas}
        if self.mechanism == "OAUTHBEARER":
            words["sasl.login.callback.handler.class"] = "Token"
        return words

    @property
    def _jaas(self) -> str:
        login = f'username="{self.user}" password="{self.password}"'
        modules = {
            "PLAIN": f"plain.PlainLoginModule required {login}",
            "SCRAM-SHA-256": f"scram.ScramLoginModule required {login}",
            "SCRAM-SHA-512": f"scram.ScramLoginModule required {login}",
            "OAUTHBEARER": "oauthbearer.OAuthBearerLoginModule required",
        }
        held = f' token="{self.token}"' if self.mechanism == "OAUTHBEARER" else ""
        return f"org.apache.kafka.common.security.{modules[self.mechanism]}{held};"

    @property
    def go(self) -> dict[str, str]:
        """As our program with franz-go is told."""
        words = {"Address": self.address, "Authority": self.authority, "Mechanism": self.mechanism}
        if self.own is not None:
            words |= {"Certificate": self.own.certificate, "Key": self.own.key}
        if self.has_password:
            words |= {"User": self.user, "Password": self.password}
        if self.mechanism == "OAUTHBEARER":
            words["Token"] = self.token
        return words
