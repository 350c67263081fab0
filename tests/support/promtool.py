"""promtool, Prometheus's own tool, which judges what the bridge shows."""

from __future__ import annotations

import subprocess

from tests.support.java import require

TIMEOUT = 60.0


def check_metrics(text: str | bytes) -> str:
    """What `promtool check metrics` has to say against a scrape: nothing, if all is well."""
    promtool = require("promtool", "apt-get install -y --no-install-recommends prometheus")
    given = text.encode() if isinstance(text, str) else text
    done = subprocess.run([promtool, "check", "metrics"], input=given, capture_output=True, timeout=TIMEOUT)
    said = (done.stdout + done.stderr).decode(errors="replace")
    return said or ("" if done.returncode == 0 else f"promtool ended with {done.returncode}")
