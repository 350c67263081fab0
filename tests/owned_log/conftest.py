"""A real Pulsar for tests of an owned log."""

from collections.abc import AsyncIterator

import pytest_asyncio

from bridge.pulsar import Admin
from tests.owned_log.nodes import LogSite, site
from tests.support.bridges import settings_for
from tests.support.pulsar import PulsarAddress


@pytest_asyncio.fixture
async def real(pulsar: PulsarAddress) -> AsyncIterator[LogSite]:
    namespace = pulsar.create_namespace()
    settings = settings_for(pulsar, namespace).pulsar
    async with site(namespace, settings, Admin(settings)) as found:
        yield found
