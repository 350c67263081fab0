"""Every mutation can be made and names a scenario that is there; those of the rules that nodes need are noticed."""

import importlib
from pathlib import Path

import pytest

from tests.schedules.mutations import MUTATIONS, RULES_OF_NODES, Mutation, can_be_made, seen_with


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.what)
def test_a_mutation_can_be_made(mutation: Mutation) -> None:
    assert can_be_made(mutation)
    assert all(new != old for _, old, new in mutation.edits)
    assert hasattr(importlib.import_module(f"tests.schedules.{mutation.module}"), mutation.scenario)


@pytest.mark.parametrize("mutation", RULES_OF_NODES, ids=lambda mutation: mutation.what)
def test_a_rule_of_nodes_undone_is_noticed(mutation: Mutation, tmp_path: Path) -> None:
    found = seen_with(mutation, tmp_path)
    assert found.startswith("seed "), found or "not noticed"
