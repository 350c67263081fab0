"""What every connection to one Pulsar needs: credentials, TLS, and a host that may be connected to."""

from asyncio import BaseProtocol, get_running_loop
from collections.abc import Callable
from contextlib import suppress

from bridge.config import PulsarSettings
from bridge.metrics import PulsarMetrics
from bridge.pulsar.auth.credentials import Credentials, NoCredentials, StaticToken, TokenFile
from bridge.pulsar.auth.host_check import HostCheck
from bridge.pulsar.auth.oauth2 import OAuth2
from bridge.pulsar.auth.tls import ClientTls


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
        """What the settings say."""
        return cls(_credentials(settings, metrics), ClientTls(settings, metrics), HostCheck(settings, metrics))

    def of(self, credentials: Credentials, original_principal: str | None = None) -> "Access":
        """The same places, reached as another role."""
        return Access(credentials, self.tls, self.hosts, original_principal)

    async def connect(self, protocol: Callable[[], BaseProtocol], host: str, port: int, *, tls: bool) -> None:
        """To the first of the host's addresses that takes it; HostRefused. Certificates are for the host's name."""
        loop = get_running_loop()
        context, name = (self.tls.context(), host) if tls else (None, None)
        addresses = await self.hosts.addresses(host, port)
        for address in addresses[:-1]:
            with suppress(OSError):
                await loop.create_connection(protocol, address, port, ssl=context, server_hostname=name)
                return
        await loop.create_connection(protocol, addresses[-1], port, ssl=context, server_hostname=name)

    async def close(self) -> None:
        """Fetch no more tokens."""
        await self.credentials.close()


def _credentials(settings: PulsarSettings, metrics: PulsarMetrics) -> Credentials:
    if settings.oauth2_key_file:
        return OAuth2(settings, metrics)
    if settings.token_file:
        return TokenFile(settings.token_file, metrics)
    return StaticToken(settings.token, metrics) if settings.token else NoCredentials()
