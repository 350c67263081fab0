"""A real Pulsar that asks for permissions, and for tokens, with the key that signs them; or for certificates."""

from __future__ import annotations

import base64
import http.client
import json
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote, urlsplit

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from bridge.standalone.ports import HOST, any_free
from tests.support.certificates import COMMON_NAME, Authority
from tests.support.pulsar import NewPulsar

ADMIN = "admin"
"""The super-user."""
PROXY = "proxy"
"""The role that may speak for others (`proxyRoles`)."""
REFRESH_SECONDS = 4
"""How often brokers look whether credentials have ended; they close a connection that has not answered by then."""
_PROVIDERS = "org.apache.pulsar.broker.authentication.AuthenticationProvider"
_TELLS_ROLES = """<Configuration status="WARN">
  <Appenders><File name="file" fileName="${sys:bridge.log}"><PatternLayout pattern="%c{1} - %msg%n"/></File></Appenders>
  <Loggers>
    <Logger name="org.apache.pulsar.broker.authorization" level="debug"/>
    <Root level="info"><AppenderRef ref="file"/></Root>
  </Loggers>
</Configuration>
"""


class SecuredPulsar:
    """`with SecuredPulsar(…)`: started, healthy, and killed at the end."""

    def __init__(
        self,
        new_pulsar: NewPulsar,
        settings: Mapping[str, str] | None = None,
        authority: Authority | None = None,
        key: bytes = b"",
    ) -> None:
        """`settings` go over those that it has; `authority`: of the certificates that it takes as log-ins.

        `key`: what signs tokens, as Pulsar writes it (PKCS 8, DER); else a fresh one.
        """
        self._key = rsa.generate_private_key(65537, 2048)
        if key:
            loaded = serialization.load_der_private_key(key, None)
            assert isinstance(loaded, rsa.RSAPrivateKey)
            self._key = loaded
        self._claim = (settings or {}).get("tokenAuthClaim", "sub")
        port = any_free()
        ports = port, any_free({port})
        self.pulsar = new_pulsar({**self._settings(), **_tls(authority, ports), **(settings or {})})
        self.pulsar.process.problem = self._problem
        self.service_url, self.admin_url = self.pulsar.service_url, self.pulsar.admin_url
        self.tls_service_url, self.tls_admin_url = f"pulsar+ssl://{HOST}:{ports[0]}", f"https://{HOST}:{ports[1]}"

    def tell_roles(self, directory: Path) -> None:
        """Have its log say of each question for a right whose it is, from its start on."""
        file = directory / "log4j2.xml"
        file.write_text(_TELLS_ROLES)
        process = self.pulsar.process
        process.program = replace(process.program, properties={"log4j.configurationFile": str(file)})

    def told(self) -> str:
        """Its log."""
        return self.pulsar.process.log.read_text()

    def __enter__(self) -> SecuredPulsar:
        self.pulsar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.pulsar.kill()

    def token(self, role: str, seconds: float | None = None, **more: object) -> str:
        """A token of this role, which ends after so many seconds."""
        claims: dict[str, object] = {"sub": role, self._claim: role, **more}
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
            "authenticationProviders": f"{_PROVIDERS}Token",
            "superUserRoles": ADMIN,
            "proxyRoles": PROXY,
            "tokenPublicKey": self._token_public_key(),
            "authenticationRefreshCheckSeconds": str(REFRESH_SECONDS),
            **self._own_client(ADMIN),
        }

    def behind_proxy(self, authority: Authority, *, by_certificate: bool = True) -> Mapping[str, str]:
        """The settings of a proxy in front of it: its clients log in to it, and it to the broker.

        `authority`: of the certificates that it takes as log-ins beside tokens. Its HTTP side can pass on a client's
        name only if it logs in by a certificate itself, and else has nothing but the client's own token.
        """
        return {
            "brokerServiceURL": self.service_url,
            "brokerWebServiceURL": self.admin_url,
            "authenticationEnabled": "true",
            "tokenPublicKey": self._token_public_key(),
            **_certificates(authority, "proxy"),
            **(self._by_certificate(authority) if by_certificate else self._own_client(PROXY)),
        }

    def _by_certificate(self, authority: Authority) -> Mapping[str, str]:
        own = authority.sign("proxy-client", {COMMON_NAME: PROXY})
        return {
            "tlsEnabledWithBroker": "true",
            # else it sends on what came without TLS as it came, on a connection with TLS
            "proxyZeroCopyModeEnabled": "false",
            "brokerServiceURLTLS": self.tls_service_url,
            "brokerWebServiceURLTLS": self.tls_admin_url,
            "brokerClientTrustCertsFilePath": authority.file,
            "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationTls",
            "brokerClientAuthenticationParameters": f"tlsCertFile:{own.certificate},tlsKeyFile:{own.key}",
        }

    def _own_client(self, role: str) -> Mapping[str, str]:
        """By which a broker or a proxy is a client itself."""
        return {
            "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
            "brokerClientAuthenticationParameters": f"token:{self.token(role)}",
        }

    def _token_public_key(self) -> str:
        return f"data:;base64,{base64.b64encode(self._public()).decode()}"

    def public_key(self, file: Path) -> str:
        """Write what brokers have as `tokenPublicKey` to a file; its name."""
        file.write_bytes(self._public())
        return str(file)

    def _public(self) -> bytes:
        encoding, form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        return self._key.public_key().public_bytes(encoding, form)

    def _problem(self) -> str | None:
        for path, fine in (("brokers/health", "ok"), ("namespaces/public/default", "")):
            status, text = self.ask("GET", path)
            if status != 200 or fine not in text:
                return f"{path} answers {status or 'nothing'}: {text[:200]}"
        return None


def _tls(authority: Authority | None, ports: tuple[int, int]) -> Mapping[str, str]:
    if authority is None:
        return {}
    named = {"brokerServicePortTls": str(ports[0]), "webServicePortTls": str(ports[1])}
    return named | _certificates(authority, "broker")


def _certificates(authority: Authority, file: str) -> dict[str, str]:
    """Of a broker or a proxy: its own, and those that it takes as log-ins beside tokens."""
    own = authority.sign(file)
    return {
        "tlsCertificateFilePath": own.certificate,
        "tlsKeyFilePath": own.key,
        "tlsTrustCertsFilePath": authority.file,
        "authenticationProviders": f"{_PROVIDERS}Tls,{_PROVIDERS}Token",
    }


def _place(where: str) -> str:
    return f"persistent/{where}" if where.count("/") == 2 else f"namespaces/{where}"
