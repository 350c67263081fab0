"""Figures of a run, for people: `pytest -s` shows them."""

from __future__ import annotations


def report(**figures: object) -> None:
    """Show figures under `pytest -s`."""
    print("figures:", " ".join(f"{name}={value}" for name, value in figures.items()))
