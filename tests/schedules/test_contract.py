"""The model broker against a real Pulsar: the scripts of `contract`, on the model under many schedules."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from bridge.config import PulsarSettings
from bridge.pulsar import Admin
from tests.schedules import contract  # noqa: F401 - its scripts
from tests.schedules.broker import ModelAdmin
from tests.schedules.explorer import must_pass
from tests.schedules.site import SCRIPTS, Script, Site
from tests.schedules.world import NAMESPACE, World
from tests.support import effort
from tests.support.bridges import settings_for
from tests.support.pulsar import PulsarAddress

_SEEDS = 12


@asynccontextmanager
async def site(namespace: str, settings: PulsarSettings, admin: Admin) -> AsyncIterator[Site]:
    """A Pulsar, and what a script has opened there closed in the end."""
    found = Site(namespace, settings, admin, [])
    await admin.start()
    try:
        yield found
    finally:
        for client in found.clients:
            await client.close()
        await admin.close()


def names() -> list[str]:
    return [function.__name__ for function in SCRIPTS]


@pytest.mark.parametrize("play", SCRIPTS, ids=names())
async def test_on_pulsar(play: Script, pulsar: PulsarAddress, namespace: str) -> None:
    settings = settings_for(pulsar, namespace).pulsar
    async with site(namespace, settings, Admin(settings)) as real:
        await play(real)


@pytest.mark.parametrize("play", SCRIPTS, ids=names())
def test_on_the_model(play: Script) -> None:
    must_pass(partial(_on_the_model, play), effort.seeds(_SEEDS))


async def _on_the_model(play: Script, world: World) -> None:
    settings = world.settings().pulsar
    async with site(NAMESPACE, settings, ModelAdmin(settings, world.broker)) as model:
        await play(model)
