"""The twins: every test that asks for `codec` runs once with each."""

import importlib
import warnings
from types import ModuleType

import pytest

with warnings.catch_warnings():  # kafka-python reads its schemas by an old function of importlib while it is imported
    warnings.simplefilter("ignore", DeprecationWarning)
    importlib.import_module("kafka.record")

TWINS = {"python": "bridge.codec._python"}


@pytest.fixture(scope="session", params=TWINS)
def codec(request: pytest.FixtureRequest) -> ModuleType:
    """The twin under test: a module with the functions of `bridge.codec._python`."""
    return importlib.import_module(TWINS[request.param])
