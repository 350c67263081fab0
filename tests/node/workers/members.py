"""Waits for workers to be nodes of one cluster."""

from __future__ import annotations

import asyncio
import json

from bridge.node.workers.http_get import get
from bridge.node.workers.supervisor import Supervisor

SECONDS = 60.0


async def until_members(supervisor: Supervisor, count: int) -> None:
    """Both are in the view: a worker serves as soon as it sees itself."""

    async with asyncio.timeout(SECONDS):
        while True:
            answer = await get(supervisor.http_port, "/cluster", SECONDS)
            if answer.status == 200 and len(json.loads(answer.body)["members"]) == count:
                return
            await asyncio.sleep(0.05)
