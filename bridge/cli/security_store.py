"""What the bridge keeps in Pulsar of users and the like, opened by a command, which asks no node."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bridge.access.security_store.security_log import SecurityUnavailable
from bridge.access.security_store.store import SecurityStore
from bridge.check import ensure_state
from bridge.config import Settings
from bridge.errors import BridgeError, StartupError
from bridge.pulsar import Access, Admin, PulsarClient
from bridge.telemetry.metrics import PulsarMetrics, SecurityMetrics


@asynccontextmanager
async def opened(settings: Settings, unsure: str) -> AsyncIterator[tuple[PulsarClient, Admin, SecurityStore]]:
    """The store, with the connections that it goes by; what goes wrong is a StartupError.

    `unsure`: what to do where a change has no answer in time.
    """
    access = Access.by(settings.pulsar, PulsarMetrics())
    client, admin = PulsarClient(settings.pulsar, PulsarMetrics(), access), Admin(settings.pulsar, access)
    store = SecurityStore(client, admin, settings.pulsar, SecurityMetrics())
    try:
        await admin.start()
        await client.start()
        await ensure_state(admin, client, access, settings)
        await store.start()
        yield client, admin, store
        await store.settled()
    except SecurityUnavailable as error:
        raise StartupError(f"{error}; {unsure}") from None
    except StartupError:
        raise
    except (BridgeError, TimeoutError) as error:
        raise StartupError(f"Pulsar: {error or 'no answer in time'}") from None
    finally:
        await store.close()
        await client.close()
        await admin.close()
        await access.close()
