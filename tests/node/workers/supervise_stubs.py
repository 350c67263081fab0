"""A supervisor of two stub workers as a process of its own; writes its workers' ids when all serve."""

from __future__ import annotations

import asyncio
import sys

from bridge.node.workers.supervisor import Supervisor
from tests.node.workers.stubs import COMMAND, stub_settings


async def main() -> None:
    supervisor = Supervisor(stub_settings(2), COMMAND)
    await supervisor.start()
    sys.stdout.write(" ".join(str(worker.pid) for worker in supervisor.workers) + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
