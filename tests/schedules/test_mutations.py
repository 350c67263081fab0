"""Every mutation can be made, in code that is there, and names a scenario that is there."""

import importlib
from pathlib import Path

import pytest

from tests.schedules.mutations import MUTATIONS, Mutation

BRIDGE = Path(__file__).parents[2] / "bridge"


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.what)
def test_a_mutation_can_be_made(mutation: Mutation) -> None:
    assert (BRIDGE / mutation.file).read_text().count(mutation.old) == 1
    assert mutation.new != mutation.old
    assert hasattr(importlib.import_module(f"tests.schedules.{mutation.module}"), mutation.scenario)
