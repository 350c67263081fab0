"""Waits for workers to be nodes of one cluster, of which each leads its share."""

from __future__ import annotations

import asyncio
import json

from bridge.node.workers.http_get import get
from bridge.node.workers.supervisor import Supervisor

SECONDS = 60.0


async def until_members(supervisor: Supervisor, count: int) -> None:
    """All are in the view, and no more slots will move.

    A worker serves as soon as it sees itself. A controller moves so many slots a second: until that is over, a
    partition's leader may be another one a moment after a client has been told.
    """

    async with asyncio.timeout(SECONDS):
        while True:
            answer = await get(supervisor.http_port, "/cluster", SECONDS)
            if answer.status == 200:
                led = [member["slots_led"] for member in json.loads(answer.body)["members"]]
                if len(led) == count and max(led) - min(led) <= 1:
                    return
            await asyncio.sleep(0.05)
