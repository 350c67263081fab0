"""One Pulsar, bridges on it, and what is asked of both."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bridge.access.password_file import line_of
from tests.pulsar_secured.conftest import ROLE
from tests.pulsar_secured.matrix.cells import RIGHTS, Answers
from tests.pulsar_secured.matrix.native import Native
from tests.pulsar_secured.matrix.through import Through
from tests.security.users import credential
from tests.support.bridges import BridgeThread, settings_for
from tests.support.certificates import COMMON_NAME, Authority
from tests.support.oauth2_issuer import issuer
from tests.support.pulsar import PulsarAddress
from tests.support.pulsar_proxy import PulsarProxy
from tests.support.secured_pulsar import PROXY, SecuredPulsar

KEEPER, PASSWORD = "root", "wonder land"
GRANTED: Mapping[str, tuple[str, ...]] = {
    "producer": ("produce",), "consumer": ("consume",), "both": ("produce", "consume"), PROXY: ("produce", "consume"),
}  # fmt: skip


class Matrix:
    """One Pulsar, bridges on it, and what is asked of both."""

    def __init__(
        self,
        secured: SecuredPulsar,
        directory: Path,
        authority: Authority | None = None,
        proxy: PulsarProxy | None = None,
    ) -> None:
        """`proxy`: a real one in front, which bridges and native clients reach it by."""
        self.secured = secured
        self.front = proxy or secured
        self._directory = directory
        self._authority = authority
        self._users = directory / "users"
        known = credential("SCRAM-SHA-256", PASSWORD)
        self._users.write_text("".join(line_of(name, known) + "\n" for name in (KEEPER, *RIGHTS.values())))

    def tenant(self, *, grants: bool) -> str:
        """A namespace whose administrators are the bridge and `owner`."""
        namespace = self.secured.create_tenant(ROLE)
        tenant = namespace.partition("/")[0]
        roles = {"adminRoles": [ROLE, RIGHTS["admin"], PROXY], "allowedClusters": ["standalone"]}
        self.secured.admin("POST", f"tenants/{tenant}", roles)
        for role, actions in GRANTED.items() if grants else ():
            self.secured.grant(namespace, role, actions)
        return namespace

    def native(self, namespace: str) -> Answers:
        """What Pulsar itself lets each role do."""
        native = Native(self.secured, namespace, self.front.service_url)
        return {right: native.may(role) for right, role in RIGHTS.items()}

    def through(
        self, namespace: str, way: str, authorizer: str, *, by_proxy: bool, more: Mapping[str, str] | None = None
    ) -> Answers:
        """What the bridge lets each role do; BridgeError where it does not start. `more`: settings of `pulsar`."""
        supers = f"User:{KEEPER};User:{RIGHTS['super']}" if authorizer == "kafka" else f"User:{KEEPER}"
        kafka = {
            "listen": "127.0.0.1:9092", "listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl_enabled_mechanisms": "PLAIN",
            "authorizer": authorizer, "super_users": "" if authorizer == "none" else supers,
        }  # fmt: skip
        with self._login(way) as pulsar, ExitStack() as stack:
            pulsar |= more or {}
            if by_proxy:
                pulsar["proxy_token_file"] = self._file("proxy", self.secured.token(PROXY))
            sections = {
                "kafka": kafka, "pulsar": pulsar, "security": {"password_file": str(self._users)},
                "groups": {"slots": 1, "initial_rebalance_delay_ms": 0}, "cluster": {"slots": 1},
            }  # fmt: skip
            bridge = BridgeThread(
                settings_for(PulsarAddress(pulsar["service_url"], pulsar["admin_url"]), namespace, sections)
            )
            bridge.start()
            stack.callback(bridge.stop)
            asked = Through(bridge.kafka, (KEEPER, PASSWORD))
            stack.callback(asked.close)
            if authorizer == "kafka":
                asked.grant()
            by_token = authorizer == "pulsar" and not by_proxy
            return {
                right: asked.may(role, f"token:{self.secured.token(role)}" if by_token else PASSWORD)
                for right, role in RIGHTS.items()
            }

    @contextmanager
    def _login(self, way: str) -> Iterator[dict[str, Any]]:
        """The settings of a bridge's log-in."""
        secured, authority, front = self.secured, self._authority, self.front
        place = {"service_url": front.service_url, "admin_url": front.admin_url}
        if way == "token":
            yield {**place, "token": secured.token(ROLE)}
        elif way == "certificate" and authority is not None:
            own = authority.sign("bridge", {COMMON_NAME: ROLE})
            yield {
                "service_url": front.tls_service_url, "admin_url": front.tls_admin_url,
                "tls_ca_file": authority.file, "tls_cert_file": own.certificate, "tls_key_file": own.key,
            }  # fmt: skip
        elif way == "OAuth2":
            words = {"type": "client_credentials", "client_id": "id", "client_secret": "words"}
            with issuer(lambda: secured.token(ROLE)) as url:
                key = self._file("key.json", json.dumps(words))
                yield {**place, "oauth2_key_file": key, "oauth2_issuer_url": url}
        else:
            yield place

    def _file(self, name: str, content: str) -> str:
        (self._directory / name).write_text(content)
        return str(self._directory / name)


def more_than(answers: Answers, native: Answers) -> dict[str, str]:
    """What a bridge gives and Pulsar does not, by right."""
    found = {right: "".join(sorted(set(given) - set(native[right]))) for right, given in answers.items()}
    return {right: letters for right, letters in found.items() if letters}
