"""The alert rules, judged by promtool: each fires when it should, none in a healthy hour with restarts of nodes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from bridge.telemetry.metrics import REJECTION_REASONS
from tests.monitoring import alert_cases
from tests.monitoring.quickened import ALL
from tests.monitoring.quickened import RULES as FILE
from tests.support.pages import anchors
from tests.support.prometheus import promtool
from tests.support.sources import ROOT

RULES = [rule for rule in ALL if "alert" in rule]
NAMES = {rule["alert"] for rule in RULES}


def run(tests: list[dict[str, Any]], directory: Path) -> str:
    file = directory / "alerts_test.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(FILE)], "evaluation_interval": "15s", "tests": tests}))
    return promtool("test", "rules", file)


@pytest.mark.programs
def test_the_rules_are_well_formed() -> None:
    assert f"SUCCESS: {len(ALL)} rules found" in promtool("check", "rules", FILE)


@pytest.mark.programs
def test_prometheus_takes_the_configuration(tmp_path: Path) -> None:
    given = (ROOT / "config" / "prometheus.yml").read_text(encoding="utf-8")
    (tmp_path / "prometheus.yml").write_text(given)
    (tmp_path / "alerts.yml").write_text(FILE.read_text(encoding="utf-8"))
    assert f"{len(ALL)} rules found" in promtool("check", "config", tmp_path / "prometheus.yml")


@pytest.mark.programs
def test_each_fires_and_ends_and_none_fires_in_a_healthy_hour(tmp_path: Path) -> None:
    assert "SUCCESS" in run(list(alert_cases.tests()), tmp_path)


def test_each_alert_has_a_case() -> None:
    assert {case.alert for case in alert_cases.CASES} == NAMES


@pytest.mark.programs
@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_healthy_hour_in_which_it_fired_would_be_seen(name: str, tmp_path: Path) -> None:
    fault = next(test for test in alert_cases.tests() if test["alert_rule_test"][0]["alertname"] == name)
    with pytest.raises(AssertionError, match=name):
        run([{**fault, "alert_rule_test": [alert_cases.quiet(name, alert_cases.FIRES)]}], tmp_path)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_it_says_what_is_wrong_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning"}
    summary = rule["annotations"]["summary"]
    assert re.fullmatch(r"[A-Z].*[^.]\.", summary)
    assert re.fullmatch(r"\S.*[^.]\.", rule["annotations"]["description"])
    page, _, section = rule["annotations"]["runbook"].partition("#")
    assert section == rule["alert"].lower()
    assert section in anchors(ROOT / page)


def test_reasons_are_those_that_the_bridge_counts() -> None:
    (reasons,) = {reason for rule in RULES for reason in re.findall(r'reason=~"([^"]+)"', rule["expr"])}
    assert set(reasons.split("|")) <= set(REJECTION_REASONS)
