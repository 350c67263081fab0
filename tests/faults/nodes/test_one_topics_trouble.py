"""A thousand topics, and the broker is slow with one of them in ways that no setting of Pulsar's makes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from tests.faults import throttled_load
from tests.faults.figures import report
from tests.faults.throttled_load import Waits
from tests.support.nodes import Nodes
from tests.support.relay import Relay

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]

_LATE_SECONDS = 2.0


def not_read(relay: Relay) -> None:
    """The broker stops reading the topic's connection."""
    client, _ = relay.newest()
    relay.hold_from(client)


def hanging(relay: Relay) -> None:
    """It reads, and its bookie never acknowledges what it writes to the topic's ledger."""
    _, server = relay.newest()
    relay.hold_from(server)


def late(relay: Relay) -> None:
    """It answers for the topic late."""
    _, server = relay.newest()
    server.delay_seconds = _LATE_SECONDS


@pytest.mark.parametrize("trouble", [not_read, hanging, late])
def test_others_do_not_wait(start_nodes: Callable[..., Nodes], trouble: Callable[[Relay], None]) -> None:
    """`pytest -s` shows how long other topics wait: quiet, beside it, and when it is over."""
    (node,) = start_nodes(1, relayed=True).all
    address = str(node.kafka)
    relay = node.relay("pulsar")
    quiet = [f"quiet-{number}" for number in range(999)]
    load = partial(throttled_load.produce_quietly, address, quiet, 200.0)

    async def phases() -> list[Waits]:
        await throttled_load.create(address, quiet)
        found = [await load(5.0), await load(20.0)]
        await throttled_load.create(address, ["noisy"])  # its connection is the newest one
        trouble(relay)
        loud = throttled_load.Noisy()
        await loud.start(address, ["noisy"])
        found.append(await load(20.0))
        answered = loud.answered
        assert answered <= (20.0 / _LATE_SECONDS) * 5 if trouble is late else answered == 0
        relay.heal()
        await asyncio.sleep(_LATE_SECONDS)
        assert loud.answered > answered
        loud.stop()
        return [*found, await load(5.0)]

    _, before, beside, after = asyncio.run(phases())
    report(way=trouble.__name__, before=str(before), beside=str(beside), after=str(after))
    assert not before.errors + beside.errors + after.errors
