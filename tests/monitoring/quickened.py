"""The alert rules with all their durations divided by a factor: the same expressions, in seconds instead of minutes.

Divided are what stands after `for` and the ranges in brackets, never below a second. Thresholds stay, also those in
seconds: how slow a receipt may be, when a certificate ends. A fault then has to last a factor less long, so what does
not fire at a quickened rule does not fire at the real one either. Prometheus must scrape and judge as much more often.

A threshold that says how long a fault has lasted is divided where that is asked for: else the fault would have to last
as long as in life.
"""

from __future__ import annotations

import re
from collections.abc import Collection
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


def threshold(text: str, factor: float) -> str:
    """An expression with the number of seconds at its end divided."""
    return re.sub(r"> (\d+)$", lambda found: f"> {int(found[1]) / factor:g}", text)


def rules(factor: float, directory: Path, lasting: Collection[str] = ()) -> Path:
    """A file with all rules, quickened; `lasting`: alerts whose thresholds say how long a fault has lasted."""
    content = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    for group in content["groups"]:
        for rule in group["rules"]:
            rule["expr"] = expression(rule["expr"], factor)
            if rule.get("alert") in lasting:
                rule["expr"] = threshold(rule["expr"], factor)
            if "for" in rule:
                rule["for"] = duration(rule["for"], factor)
    path = directory / "alerts.yml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path
