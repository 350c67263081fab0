"""The alert rules with all their durations divided by a factor: the same expressions, in seconds instead of minutes.

Divided are what stands after `for` and the ranges in brackets, never below a second. Thresholds stay, also those in
seconds: how slow a receipt may be, when a certificate ends. A fault then has to last a factor less long, so what does
not fire at a quickened rule does not fire at the real one either. Prometheus must scrape and judge as much more often.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from tests.support.sources import ROOT

RULES = ROOT / "config" / "alerts.yml"
ALL: list[dict[str, Any]] = [
    rule for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]
]
"""Alerts, and what is recorded for them."""
SCRAPE_SECONDS = 15.0
"""Of config/prometheus.yml."""
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LEAST_MS = 1000


def duration(text: str, factor: float) -> str:
    """One of Prometheus's durations, of one unit, divided."""
    return f"{max(_LEAST_MS, round(int(text[:-1]) * _UNITS[text[-1]] * 1000 / factor))}ms"


def expression(text: str, factor: float) -> str:
    """An expression with its ranges divided."""
    return re.sub(r"\[(\d+[smhd])\]", lambda found: f"[{duration(found[1], factor)}]", text)


def rules(factor: float, directory: Path) -> Path:
    """A file with all rules, quickened."""
    content = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    for group in content["groups"]:
        for rule in group["rules"]:
            rule["expr"] = expression(rule["expr"], factor)
            if "for" in rule:
                rule["for"] = duration(rule["for"], factor)
    path = directory / "alerts.yml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path
