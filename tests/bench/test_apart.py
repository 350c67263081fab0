import os

import pytest

from bench import apart
from bridge.errors import BridgeError


def test_a_load_that_cannot_run_is_an_error_that_tells_what_it_said() -> None:
    with apart.started("followers", bootstrap="127.0.0.1:1", topic="t", records=1, consumers=1) as process:
        with pytest.raises(BridgeError, match="ended before it was ready") as raised:
            process.wait_for("following")
        assert "Error" in str(raised.value)


def test_a_load_with_wrong_options_is_an_error() -> None:
    with apart.started("crowd", bootstrap="127.0.0.1:1") as process, pytest.raises(BridgeError, match="ended with 2"):
        process.result()


def test_what_still_runs_ends_with_the_block() -> None:
    with apart.started("groups", bootstrap="127.0.0.1:1", topic="t", groups=1, rate=1, seconds=600) as process:
        pid = process.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
