"""Fetch what tests run of Maven's jars and Python's packages, before they run: a download would take a test's time.

`python -m tests.support.fetch` fetches all but Pulsar's and Spark's jars, whose commands do that, `… definitions` what
`make unit` takes.
"""

from __future__ import annotations

import sys

from bridge.errors import StartupError
from bridge.standalone.maven import JarsError
from tests.support.java import (
    CONNECT,
    FLINK,
    KAFKA,
    KAFKA_NEWEST,
    MIRROR,
    NEWER,
    NEWEST,
    OLD_CLIENTS,
    OLDEST_CLIENTS,
    SPRING,
    STREAMS,
    definitions_jar,
    jars_directory,
)
from tests.support.old_kafka_python import old_kafka_python
from tests.support.pulsar_proxy import proxy_jars


def main(only: list[str]) -> int:
    """Fetch them; an error is one line."""
    try:
        definitions_jar()
        if only != ["definitions"]:
            clients = OLDEST_CLIENTS, OLD_CLIENTS, NEWER, NEWEST
            for jars in (KAFKA, KAFKA_NEWEST, *clients, STREAMS, SPRING, CONNECT, MIRROR, FLINK):
                jars_directory(jars)
            proxy_jars()
            old_kafka_python()
    except (AssertionError, JarsError, StartupError) as error:
        print(f"make: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
