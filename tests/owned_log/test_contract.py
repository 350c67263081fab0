"""The scripts of `contract`, on a real Pulsar and on the model broker."""

import pytest

from tests.owned_log import contract
from tests.owned_log.model import play_on_model
from tests.owned_log.nodes import LogScript, LogSite

each_script = pytest.mark.parametrize("play", contract.SCRIPTS, ids=[one.__name__ for one in contract.SCRIPTS])


@each_script
async def test_on_pulsar(play: LogScript, real: LogSite) -> None:
    await play(real)


@each_script
def test_on_the_model(play: LogScript) -> None:
    play_on_model(lambda site, _: play(site))
