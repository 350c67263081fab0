"""Nodes that keep users and permissions in one log, on a Pulsar that is real or not."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bridge.access.security_store.security_log import SecurityLog
from bridge.config import PulsarSettings
from bridge.pulsar import Admin, PulsarClient
from bridge.security.acls import AccessControlEntry, Operation, PatternType, Permission, ResourceType
from bridge.security.records import Kept, user_key, user_record
from bridge.telemetry.metrics import SecurityMetrics
from tests.schedules.site import Site
from tests.security.users import credential
from tests.support.bridges import settings_for
from tests.support.pulsar import PulsarAddress
from tests.support.state import among_data

SHA = "SCRAM-SHA-256"
_CREDENTIALS = {word: credential(SHA, word) for word in ("a", "b", "c", "d", "e", "f")}
READ = AccessControlEntry(
    ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:alice", "*", Operation.READ, Permission.ALLOW
)


def user(name: str, password: str) -> Kept:
    """A user whose password is one of the letters a to f."""
    return user_record(name, _CREDENTIALS[password])


def gone(name: str) -> Kept:
    return Kept(user_key(SHA, name))


class SecurityNode:
    """One process."""

    def __init__(self, site: Site, client: PulsarClient, kept: PulsarSettings) -> None:
        self.client = client
        self.metrics = SecurityMetrics()
        self.log = SecurityLog(client, site.admin, kept, self.metrics)

    @property
    def users(self) -> dict[str, str]:
        """Passwords by name."""
        words = {made.stored_key: word for word, made in _CREDENTIALS.items()}
        return {name: words[made.stored_key] for (_, name), made in self.log.state.credentials.items()}


@asynccontextmanager
async def site_on(pulsar: PulsarAddress) -> AsyncIterator[Site]:
    """A namespace of a real Pulsar."""
    namespace = pulsar.create_namespace()
    settings = settings_for(pulsar, namespace).pulsar
    found = Site(namespace, settings, Admin(settings), [])
    await found.admin.start()
    yield found
    for client in found.clients:
        await client.close()
    await found.admin.close()


async def node(site: Site, kept: PulsarSettings | None = None) -> SecurityNode:
    """A node that has read the log; `kept`: where it is, with the data unless told."""
    found = SecurityNode(site, await site.client(), kept or among_data(site.namespace))
    await found.log.start()
    assert found.log.is_known
    return found
