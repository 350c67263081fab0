"""The settings in force; secrets are hidden, and so is what of a URL may be one."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, Final

from bridge.config import ListenerSettings, Settings
from bridge.config.urls import url_without_secrets, without_secrets
from bridge.http.status.table import Row, Value

COLUMNS: Final = ("name", "value", "usual", "changed", "position")
HIDDEN: Final = "set, not shown"
_MOST_CHARACTERS: Final = 2000


def rows(settings: Settings) -> list[Row]:
    """One row for each setting, in the order of config/bridge.toml's sections."""
    return [{**row, "position": number} for number, row in enumerate(_rows(settings))]


def _rows(settings: Settings) -> Iterator[Row]:
    for section in fields(settings):
        values = getattr(settings, section.name)
        if isinstance(values, Mapping):
            for name, of_listener in values.items():
                yield from _section(f"{section.name}.{name}", of_listener, ListenerSettings())
        else:
            yield from _section(section.name, values, type(values)())


def _section(label: str, values: Any, usual: Any) -> Iterator[Row]:
    for setting in fields(values):
        value, default = getattr(values, setting.name), getattr(usual, setting.name)
        secret = bool(setting.metadata.get("secret"))
        yield {
            "name": f"{label}.{setting.name}",
            "value": (HIDDEN if value else "") if secret else _shown(value),
            "usual": "" if secret else _shown(default),
            "changed": value != default,
        }


def _shown(value: object) -> Value:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return str(value)
    text = (without_secrets if value.count("://") > 1 else url_without_secrets)(value)
    return text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + "…"
