"""A command of `bridge` that asks a Kafka, run in this process."""

from collections.abc import Callable

import pytest

from bridge.cli.command import main

Said = tuple[int, list[str], str]
"""Exit code, lines of standard output, standard error."""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Run it: `run("topic", "list", "--bootstrap", address)`."""

    def run(*words: str) -> Said:
        code = main(words)
        told = capsys.readouterr()
        return code, told.out.splitlines(), told.err

    return run
