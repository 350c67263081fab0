"""What every connection to one Pulsar needs: credentials, TLS, and a host that may be connected to.

`Access` is the bridge's own. `RoleAccess` is a client's: it is made of a `Destination`, which has nothing of the
bridge's, and of the client's token, or of the word of a proxy role.
"""

from asyncio import BaseProtocol
from collections.abc import Callable
from copy import copy
from typing import Self

from bridge.config import PulsarSettings
from bridge.net import connecting
from bridge.pulsar.auth.credentials import CertificateLogin, Credentials, NoCredentials, StaticToken, TokenFile
from bridge.pulsar.auth.host_check import HostCheck
from bridge.pulsar.auth.oauth2 import OAuth2
from bridge.pulsar.auth.tls import ClientTls
from bridge.telemetry.metrics import PulsarMetrics


class Access:
    """Shared by the clients of one process, so that a token is fetched once for all; its maker closes it."""

    def __init__(
        self, credentials: Credentials, tls: ClientTls, hosts: HostCheck, original_principal: str | None = None
    ) -> None:
        """`original_principal`: the role that the credentials speak for (`proxyRoles` of the broker)."""
        self.credentials = credentials
        self.tls = tls
        self.hosts = hosts
        self.original_principal = original_principal

    @classmethod
    def by(cls, settings: PulsarSettings, metrics: PulsarMetrics) -> "Access":
        """The bridge's own, as the settings say."""
        return Access(_credentials(settings, metrics), ClientTls(settings, metrics), HostCheck(settings, metrics))

    def naming(self, principal: str) -> Self:
        """The same, but that it says to speak for another role."""
        other = copy(self)
        other.original_principal = principal
        return other

    async def connect(self, protocol: Callable[[], BaseProtocol], host: str, port: int, *, tls: bool) -> None:
        """To the first of the host's addresses that takes it; HostRefused. Certificates are for the host's name."""
        context = self.tls.context() if tls else None
        await connecting.connect(protocol, await self.hosts.addresses(host, port), port, context, host)

    async def close(self) -> None:
        """Fetch no more tokens."""
        await self.credentials.close()


class Destination:
    """Where a Pulsar is, and by what it is known. It has nothing of the bridge's: no certificate, no token."""

    def __init__(self, settings: PulsarSettings, hosts: HostCheck) -> None:
        self.settings = settings.without_identity()
        self.hosts = hosts
        self.tls = ClientTls(self.settings, PulsarMetrics())


class RoleAccess(Access):
    """What is done in the name of a client, and with nothing but what makes it this client."""

    def __init__(
        self, destination: Destination, token: StaticToken | TokenFile, original_principal: str | None = None
    ) -> None:
        """`token`: the client's own; or with `original_principal`, its role, that of a role that may speak for it."""
        super().__init__(token, destination.tls, destination.hosts, original_principal)
        self.settings = destination.settings


def _credentials(settings: PulsarSettings, metrics: PulsarMetrics) -> Credentials:
    if settings.oauth2_key_file:
        return OAuth2(settings, metrics)
    if settings.token_file:
        return TokenFile(settings.token_file, metrics)
    if settings.token:
        return StaticToken(settings.token, metrics)
    by_certificate = settings.has_certificate and settings.service_url.startswith("pulsar+ssl://")
    return CertificateLogin() if by_certificate else NoCredentials()
