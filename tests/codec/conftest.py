"""The twins: every test that asks for `codec` runs once with each."""

import importlib
import os
import shutil
import warnings

import pytest

from bridge.codec import Twin, _python, choose
from bridge.errors import StartupError

with warnings.catch_warnings():  # kafka-python reads its schemas by an old function of importlib while it is imported
    warnings.simplefilter("ignore", DeprecationWarning)
    importlib.import_module("kafka.record")


def native() -> Twin:
    """The native twin; skips only where it cannot be expected: not in a CI that has cargo, nor if asked for by name."""
    try:
        return choose("native")[1]
    except StartupError as error:
        if os.environ.get("BRIDGE_CODEC") == "native" or (os.environ.get("CI") and shutil.which("cargo")):
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session", params=["python", "native"])
def codec(request: pytest.FixtureRequest) -> Twin:
    """The twin under test."""
    return _python if request.param == "python" else native()
