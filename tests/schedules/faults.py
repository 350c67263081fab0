"""What goes wrong with the model broker and its connections, at moments of the run's own."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from tests.schedules.world import World

Fault = Callable[[World, str], None]


def unload(world: World, topic: str) -> None:
    """The topic is unloaded."""
    world.broker.unload(topic)


def reset(world: World, topic: str) -> None:
    """A connection breaks."""
    world.broker.reset_connection()


def crash(world: World, topic: str) -> None:
    """The broker is killed, and comes back after a while."""
    world.broker.crash(world.chance.choice((0.05, 1.0, 10.0)) * world.chance.random())


def freeze(world: World, topic: str) -> None:
    """The broker is stopped, and goes on after a while."""
    world.broker.freeze()
    world.loop.after(world.chance.choice((0.2, 5.0, 50.0)) * world.chance.random(), world.broker.thaw)


def silence(world: World, topic: str) -> None:
    """On a connection nothing arrives for a while."""
    world.broker.silence_connection(world.chance.choice((1.0, 10.0, 90.0)) * world.chance.random())


def fail_writes(world: World, topic: str) -> None:
    """The bookies refuse what is on its way."""
    world.broker.topic(topic).fail_writes()


ALL: Final[Sequence[Fault]] = (unload, reset, crash, freeze, silence, fail_writes)
SHORT: Final[Sequence[Fault]] = (unload, reset, fail_writes)


async def some(world: World, topic: str, most: int = 4, seconds: float = 10.0, kinds: Sequence[Fault] = ALL) -> None:
    """Some faults, one after another, over about so many seconds."""
    for _ in range(world.chance.randint(1, most)):
        await asyncio.sleep(world.chance.random() * seconds / most)
        world.chance.choice(kinds)(world, topic)


async def heal(world: World) -> None:
    """Let the broker be well again, and all clients come back."""
    world.broker.thaw()
    await asyncio.sleep(100.0)
    world.broker.thaw()
