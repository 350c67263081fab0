"""A real Pulsar that asks for tokens and permissions, with the key that signs the tokens."""

from __future__ import annotations

import base64
import http.client
import json
import secrets
import time
from collections.abc import Mapping, Sequence
from urllib.parse import quote, urlsplit

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from tests.support.pulsar import NewPulsar

ADMIN = "admin"
"""The super-user."""
PROXY = "proxy"
"""The role that may speak for others (`proxyRoles`)."""
REFRESH_SECONDS = 1
"""How often brokers look whether credentials have ended."""


class SecuredPulsar:
    """`with SecuredPulsar(…)`: started, healthy, and killed at the end."""

    def __init__(self, new_pulsar: NewPulsar) -> None:
        self._key = rsa.generate_private_key(65537, 2048)
        self.pulsar = new_pulsar(self._settings())
        self.pulsar.process.problem = self._problem
        self.service_url, self.admin_url = self.pulsar.service_url, self.pulsar.admin_url

    def __enter__(self) -> SecuredPulsar:
        self.pulsar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.pulsar.kill()

    def token(self, role: str, seconds: float | None = None, **more: object) -> str:
        """A token of this role, which ends after so many seconds."""
        claims: dict[str, object] = {"sub": role, **more}
        if seconds is not None:
            claims["exp"] = time.time() + seconds
        return jwt.encode(claims, self._key, "RS256")

    def key_set(self) -> str:
        """What an issuer of such tokens publishes (RFC 7517)."""
        key = RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        return json.dumps({"keys": [{**key, "use": "sig", "key_ops": ["verify"]}]})

    def admin(self, method: str, path: str, body: object = None) -> object:
        """Ask the admin API as the super-user; AssertionError when it refuses."""
        status, text = self.ask(method, path, body)
        assert status < 300, f"{method} {path}: {status} {text}"
        try:
            return json.loads(text)
        except ValueError:
            return text

    def ask(self, method: str, path: str, body: object = None, role: str = ADMIN) -> tuple[int, str]:
        """Status and text of what the admin API answers to this role; status 0: nothing."""
        address = urlsplit(self.pulsar.admin_url)
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
        try:
            data = None if body is None else json.dumps(body)
            headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.token(role)}"}
            connection.request(method, f"/admin/v2/{path}", data, headers)
            response = connection.getresponse()
            return response.status, response.read().decode()
        except (OSError, http.client.HTTPException) as error:
            return 0, str(error)
        finally:
            connection.close()

    def create_tenant(self, role: str) -> str:
        """A fresh tenant with one namespace, of which this role is the administrator; `tenant/namespace`."""
        tenant = f"t-{secrets.token_hex(4)}"
        self.admin("PUT", f"tenants/{tenant}", {"adminRoles": [role], "allowedClusters": ["standalone"]})
        self.admin("PUT", f"namespaces/{tenant}/ns")
        unlimited = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
        self.admin("POST", f"namespaces/{tenant}/ns/retention", unlimited)
        return f"{tenant}/ns"

    def grant(self, where: str, role: str, actions: Sequence[str]) -> None:
        """`where`: a namespace, or a topic as `tenant/namespace/topic`."""
        self.admin("POST", f"{_place(where)}/permissions/{quote(role)}", list(actions))

    def revoke(self, where: str, role: str) -> None:
        """Take back all that the role was granted there."""
        self.admin("DELETE", f"{_place(where)}/permissions/{quote(role)}")

    def topics(self, namespace: str) -> list[str]:
        """Full names of all topics and partitions, the bridge's own too."""
        found = self.admin("GET", f"persistent/{namespace}")
        assert isinstance(found, list)
        return found

    def _settings(self) -> Mapping[str, str]:
        return {
            "authenticationEnabled": "true",
            "authorizationEnabled": "true",
            "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
            "superUserRoles": ADMIN,
            "proxyRoles": PROXY,
            "tokenPublicKey": f"data:;base64,{base64.b64encode(self._public()).decode()}",
            "authenticationRefreshCheckSeconds": str(REFRESH_SECONDS),
            "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
            "brokerClientAuthenticationParameters": f"token:{self.token(ADMIN)}",
        }

    def _public(self) -> bytes:
        encoding, form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        return self._key.public_key().public_bytes(encoding, form)

    def _problem(self) -> str | None:
        for path, fine in (("brokers/health", "ok"), ("namespaces/public/default", "")):
            status, text = self.ask("GET", path)
            if status != 200 or fine not in text:
                return f"{path} answers {status or 'nothing'}: {text[:200]}"
        return None


def _place(where: str) -> str:
    return f"persistent/{where}" if where.count("/") == 2 else f"namespaces/{where}"
