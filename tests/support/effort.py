"""How many examples and seeds tests of properties try: two options make them more or fewer."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

_factor = 1.0
_schedule_factor = 1.0


def add_option(parser: pytest.Parser) -> None:
    """Add the option."""
    told = "try so many times as many examples of properties and seeds of schedules as usual"
    parser.addoption("--example-factor", type=float, default=1.0, help=told)
    told = "run so many times as many seeds of schedules and histories, beside what --example-factor says"
    parser.addoption("--schedule-factor", type=float, default=1.0, help=told)


def configure(config: pytest.Config) -> None:
    """Take the factor over before test modules are imported: their decorators ask for it."""
    global _factor, _schedule_factor
    _factor = config.getoption("--example-factor")
    _schedule_factor = config.getoption("--schedule-factor")
    # for properties that say nothing themselves; how long one takes depends on what else the machine does
    settings.register_profile(
        "bridge", max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("bridge")


def examples(usual: int) -> int:
    """How many to try where so many are usual."""
    return max(round(usual * _factor), 1)


def seeds(usual: int) -> int:
    """How many seeds of a simulation to run where so many are usual."""
    return max(round(usual * _factor * _schedule_factor), 1)
