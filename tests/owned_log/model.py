"""Runs scripts of an owned log on the model broker, under many schedules."""

from collections.abc import Awaitable, Callable
from functools import partial

from tests.owned_log.nodes import LogSite, site
from tests.schedules.broker import ModelAdmin
from tests.schedules.explorer import must_pass
from tests.schedules.world import NAMESPACE, World

_SEEDS = 20

ModelScript = Callable[[LogSite, World], Awaitable[None]]


def play_on_model(play: ModelScript) -> None:
    """Play it with each seed."""
    must_pass(partial(_play, play), _SEEDS)


async def _play(play: ModelScript, world: World) -> None:
    settings = world.settings().pulsar
    async with site(NAMESPACE, settings, ModelAdmin(settings, world.broker)) as model:
        await play(model, world)
