"""How many examples and schedules tests of properties try: `--example-factor` makes them more or fewer."""

from __future__ import annotations

import pytest

_factor = 1.0


def add_option(parser: pytest.Parser) -> None:
    """Add the option."""
    told = "try so many times as many examples of properties and seeds of schedules as usual"
    parser.addoption("--example-factor", type=float, default=1.0, help=told)


def configure(config: pytest.Config) -> None:
    """Take the factor over before test modules are imported: their decorators ask for it."""
    global _factor
    _factor = config.getoption("--example-factor")


def examples(usual: int) -> int:
    """How many to try where so many are usual."""
    return max(round(usual * _factor), 1)
