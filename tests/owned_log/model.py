"""Runs scripts of an owned log on the model broker, under many schedules."""

from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from tests.owned_log.nodes import LogSite, site
from tests.schedules.broker import ModelAdmin
from tests.schedules.explorer import run
from tests.schedules.world import NAMESPACE, World

_SEEDS = 20

ModelScript = Callable[[LogSite, World], Awaitable[None]]


def play_on_model(play: ModelScript) -> None:
    """Play it with each seed; fail with the events of the first that fails."""
    for seed in range(_SEEDS):
        outcome = run(partial(_play, play), seed)
        if outcome.error is not None:
            outcome = run(partial(_play, play), seed, events=60)
            pytest.fail(f"seed {seed}: {outcome.error}\n{outcome.events}", pytrace=False)


async def _play(play: ModelScript, world: World) -> None:
    settings = world.settings().pulsar
    async with site(NAMESPACE, settings, ModelAdmin(settings, world.broker)) as model:
        await play(model, world)
