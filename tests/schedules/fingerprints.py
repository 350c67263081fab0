"""How all scenarios run with one seed: what two processes must agree on."""

import importlib
from pathlib import Path

from tests.schedules.explorer import run


def scenarios() -> list[tuple[str, str]]:
    """Every scenario here: its module and its name."""
    found = []
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        module = f"tests.schedules.{path.stem}"
        names = vars(importlib.import_module(module)) if path.stem != "test_explorer" else {}
        found += [(module, name) for name, test in names.items() if hasattr(test, "scenario")]
    return found


def fingerprints(seed: int) -> list[str]:
    """How every third scenario runs with this seed."""
    found = []
    for module, name in scenarios()[::3]:
        outcome = run(getattr(importlib.import_module(module), name).scenario, seed)
        found.append(f"{name} {outcome.steps} {outcome.fingerprint}")
    return found
