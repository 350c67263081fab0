"""Settings and command of supervisors whose workers need no Pulsar."""

from __future__ import annotations

import sys
from typing import Any

from bridge.config import Settings

COMMAND = (sys.executable, "-m", "tests.node.workers.stub_worker")


def stub_settings(workers: int, **kafka: Any) -> Settings:
    """On free ports."""
    return Settings().with_values(
        kafka={"listen": "127.0.0.1:0", "workers": workers, "worker_port": 0, **kafka},
        http={"listen": "127.0.0.1:0"},
    )
