"""Pulsar, and what the bridge keeps there, opened by a command, which asks no node."""

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
async def connected(settings: Settings) -> AsyncIterator[tuple[PulsarClient, Admin]]:
    """Both sides of Pulsar; what goes wrong there is a StartupError."""
    access = Access.by(settings.pulsar, PulsarMetrics())
    client, admin = PulsarClient(settings.pulsar, PulsarMetrics(), access), Admin(settings.pulsar, access)
    try:
        await admin.start()
        await client.start()
        yield client, admin
    except StartupError:
        raise
    except (BridgeError, TimeoutError) as error:
        raise StartupError(f"Pulsar: {error or 'no answer in time'}") from None
    finally:
        await client.close()
        await admin.close()
        await access.close()


@asynccontextmanager
async def opened_security(settings: Settings, unsure: str) -> AsyncIterator[tuple[PulsarClient, Admin, SecurityStore]]:
    """The same, and the users, permissions and the like that are kept in Pulsar.

    `unsure`: what to do where a change has no answer in time.
    """
    async with connected(settings) as (client, admin):
        store = SecurityStore(client, admin, settings.pulsar, SecurityMetrics())
        try:
            await ensure_state(admin, client, admin.access, settings)
            await store.start()
            yield client, admin, store
            await store.settled()
        except SecurityUnavailable as error:
            raise StartupError(f"{error}; {unsure}") from None
        finally:
            await store.close()
