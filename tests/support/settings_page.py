"""Writes docs/settings.md by `python -m tests.support.settings_page`: the model, the words of config/bridge.toml."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import Field, fields
from typing import Any

from bridge.config import ENV_PREFIX, ListenerSettings
from bridge.config.rules import allowed, toml_value
from bridge.config.sections import SECTIONS
from tests.support.pages import put_between
from tests.support.sources import ROOT

PAGE = ROOT / "docs" / "settings.md"
BEGIN, END = "<!-- settings: begin, written by `python -m tests.support.settings_page` -->", "<!-- settings: end -->"
LISTENER = "listener"
_ASSIGNED = re.compile(r"(?:# )?(\w+) = .*")
_HEAD = "| setting | what it may be | default | meaning |\n|---|---|---|---|"


def listing() -> str:
    """A table for each section, in the order of the file."""
    words = meanings()
    sections: dict[str, type] = {**SECTIONS, LISTENER: ListenerSettings}
    parts = []
    for section, kind in sections.items():
        title = f"[{section}]" if section != LISTENER else "[listener.NAME]"
        rows = [_row(section, setting, words[section]) for setting in fields(kind)]
        parts.append("\n".join([f"## {title}\n", _HEAD, *rows]))
    return "\n\n".join(parts)


def meanings() -> dict[str, dict[str, list[str]]]:
    """By section and setting: the lines of the comment above it; none where it shares the one before it."""
    found: dict[str, dict[str, list[str]]] = {section: {} for section in (*SECTIONS, LISTENER)}
    section, comment = "", list[str]()
    for line in (ROOT / "config" / "bridge.toml").read_text("utf-8").splitlines():
        if line.startswith("[listener") or not line:
            comment = []
        elif line.startswith("["):
            section, comment = line.strip("[]"), []
        elif line.startswith("# What belongs to one listener"):
            section = LISTENER
        elif line == "#":
            comment = []
        elif (assigned := _ASSIGNED.fullmatch(line)) and (section == LISTENER or not line.startswith("#")):
            found[section][assigned[1]], comment = comment, []
        elif line.startswith("#"):
            comment.append(line.removeprefix("# ").removeprefix("#"))
    return found


def _row(section: str, setting: Field[Any], words: Mapping[str, list[str]]) -> str:
    upper = f"{section}_<NAME>" if section == LISTENER else section
    variable = f"{ENV_PREFIX}{upper}_{setting.name}".upper()
    default = "a secret" if setting.metadata.get("secret") else f"`{toml_value(setting.default)}`"
    meaning = " ".join(_prose(words[setting.name])) or f"see `{_shared(setting.name, words)}`"
    return f"| `{setting.name}`<br>`{variable}` | {_escaped(allowed(setting))} | {default} | {meaning} |"


def _shared(name: str, words: Mapping[str, list[str]]) -> str:
    """The setting above it that has the comment of both."""
    names = list(words)
    return next(other for other in reversed(names[: names.index(name)]) if words[other])


def _prose(lines: list[str]) -> Iterator[str]:
    """A comment as text; its indented lines are examples."""
    for line in lines:
        yield f"<br>`{line.strip()}`".replace("|", "\\|") if line.startswith("  ") else _escaped(line)


def _escaped(text: str) -> str:
    """Markdown's own signs, outside of code."""
    parts = text.split("`")
    return "`".join(re.sub(r"([*|<>$])", r"\\\1", part) if at % 2 == 0 else part for at, part in enumerate(parts))


def main() -> None:
    """Write the page again."""
    put_between(PAGE, BEGIN, END, listing())


if __name__ == "__main__":
    main()
