"""Pages of docs/ that are made from the code, or held to it: settings, errors, commands."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from bridge.cli import parser
from bridge.config import ListenerSettings, Settings, load_text
from bridge.config.sections import SECTIONS
from bridge.kafka.error_codes import ErrorCode
from bridge.pipeline import cli
from tests.support import errors_page, settings_page
from tests.support.pages import between
from tests.support.sources import ROOT

DOCS = ROOT / "docs"


def test_the_settings_are_those_of_the_model() -> None:
    page = settings_page
    assert between(page.PAGE, page.BEGIN, page.END) == page.listing(), "python -m tests.support.settings_page"


def test_every_setting_has_its_words() -> None:
    words = settings_page.meanings()
    for section, kind in {**SECTIONS, settings_page.LISTENER: ListenerSettings}.items():
        assert set(words[section]) == {setting.name for setting in fields(kind)}


def test_the_errors_of_pulsar_are_those_of_the_table() -> None:
    page = errors_page
    assert between(page.PAGE, page.BEGIN, page.END) == page.table(), "python -m tests.support.errors_page"


def test_the_page_of_errors_has_every_code_that_is_sent() -> None:
    rows = re.findall(
        r"^\| ([A-Z_]+) \| (-?\d+) \| (yes|no) \| (.+?) \| (.+?) \|$", errors_page.PAGE.read_text("utf-8"), re.M
    )
    told = {name: (int(number), again == "yes") for name, number, again, _, _ in rows}
    assert told == {code.name: (code.value, code.retriable) for code in errors_page.sent()}
    assert [int(row[1]) for row in rows] == sorted(int(row[1]) for row in rows)
    assert set(told) <= set(ErrorCode.__members__)


@pytest.mark.parametrize(("title", "codes"), [("bridge", parser.EXIT_CODES), ("bridge-pipeline", cli.EXIT_CODES)])
def test_exit_codes_are_those_of_the_commands(title: str, codes: dict[int, str]) -> None:
    section = (DOCS / "commands.md").read_text("utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", section, re.M)
    assert {int(code): meaning for code, meaning in rows} == codes


def test_the_settings_of_the_quick_start_can_be_read() -> None:
    (text,) = re.findall(r"^```toml\n(.*?)^```$", (DOCS / "quick-start.md").read_text("utf-8"), re.M | re.S)
    assert load_text(text) != Settings()


def test_every_command_is_told_of() -> None:
    page = (DOCS / "commands.md").read_text("utf-8")
    assert [command for command in parser.EXAMPLES if f"| `bridge {command}" not in page] == []
