"""kcat, the command-line client of librdkafka that Debian packages, run to its end."""

from __future__ import annotations

import subprocess

from tests.support.programs import require

TIMEOUT = 60.0


class KcatError(Exception):
    """kcat ended with an error; the first argument is what it printed."""


def run_kcat(bootstrap: str, *arguments: str | bytes, stdin: bytes = b"") -> tuple[bytes, bytes]:
    """Run kcat and return its standard output and its standard error."""
    kcat = require("kcat")
    done = subprocess.run([kcat, "-b", bootstrap, *arguments], input=stdin, capture_output=True, timeout=TIMEOUT)
    if done.returncode != 0:
        raise KcatError(done.stderr.decode(errors="replace"))
    return done.stdout, done.stderr
