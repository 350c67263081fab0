"""Reads the settings from a TOML file, with the environment (BRIDGE_<SECTION>_<NAME>) over it."""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import Field
from pathlib import Path
from typing import Any

from bridge.config.listeners import ListenerSettings
from bridge.config.rules import allowed, fields_of, known_name, why_unreadable
from bridge.config.sections import SECTIONS, Settings
from bridge.errors import SettingsError

ENV_PREFIX = "BRIDGE_"
# Read elsewhere (the tests' own Pulsar, the codec's twin), so no setting of ours and no mistake of the operator's.
OTHER_VARIABLES = ("BRIDGE_TEST_", "BRIDGE_CODEC")
# Kubernetes injects these for every Service of the namespace; one named "bridge" must not stop our start.
_SERVICE_LINK = re.compile(r"_SERVICE_HOST$|_SERVICE_PORT(_\w+)?$|_PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?$")


def load(path: Path | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Read the file, put the environment (BRIDGE_<SECTION>_<NAME>) over it and check everything.

    Raises SettingsError, with a line for each value that is wrong.
    """
    wrong: list[str] = []
    of_environment = _read_environment(os.environ if environ is None else environ, wrong)
    incomplete = set(SECTIONS) if wrong else set()
    values = _merge({} if path is None else _read_file(path), of_environment)
    while True:
        try:
            settings = Settings().with_values(**values)
        except SettingsError as error:
            # what does not go together may do so for lack of what was left out
            if len(error.at) > 1 or not (incomplete.intersection(error.at) if error.at else wrong):
                wrong.append(str(error))
            incomplete.update(error.at[:1])
            if error.at and _leave_out(values, *error.at):
                continue
        break
    if wrong:
        raise SettingsError("\n".join(wrong if path is None else [f"{path}: {one}" for one in wrong]))
    return settings


def _leave_out(values: dict[str, Any], *at: str) -> bool:
    """Take a value away, that the rest can be judged; whether it was there."""
    table, last = values, at[-1]
    for name in at[:-1]:
        table = table.get(name, {})
    return table.pop(last, None) is not None


def load_text(text: str) -> Settings:
    """The settings that `Settings.to_toml` wrote, whatever the environment says."""
    return Settings().with_values(**tomllib.loads(text))


def _merge(*layers: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    merged: dict[str, dict[str, Any]] = {}
    for layer in layers:
        for section, values in layer.items():
            into = merged.setdefault(section, {})
            for name, value in values.items():
                into[name] = {**into.get(name, {}), **value} if isinstance(value, dict) else value
    return merged


def _read_file(path: Path) -> dict[str, dict[str, Any]]:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8-sig"))  # editors of Windows write such a mark
    except OSError:
        why = why_unreadable(str(path))
        raise SettingsError(f"{path}: cannot read the settings: {why}; --config names their file") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise SettingsError(f"{path}: line {line} is not UTF-8: save the file in this encoding") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: not TOML: {error}; {_advice(str(error))}") from None
    for section, content in values.items():
        if not isinstance(content, dict):
            known = ", ".join((*SECTIONS, "listener.NAME"))
            raise SettingsError(f"{path}: {section} stands outside a section; sections are {known}")
    return values


def _advice(error: str) -> str:
    """What to do at an error of the parser's."""
    if "Cannot overwrite" in error:
        return "what this line sets is set above: keep one of the two"
    if "Cannot declare" in error:
        return "this section is above: put all of its settings there"
    return 'lines are [section], name = "text", name = 1 or name = true'


def _read_environment(environ: Mapping[str, str], wrong: list[str]) -> dict[str, dict[str, Any]]:
    """What is wrong with a variable is added to `wrong`."""
    values: dict[str, dict[str, Any]] = {}
    for variable in sorted(environ):
        if not variable.startswith(ENV_PREFIX) or variable.startswith(OTHER_VARIABLES):
            continue
        if _SERVICE_LINK.search(variable):
            continue
        try:
            _read_variable(variable, environ[variable], values)
        except SettingsError as error:
            wrong.append(str(error))
    return values


def _read_variable(variable: str, text: str, values: dict[str, dict[str, Any]]) -> None:
    section, _, name = variable.removeprefix(ENV_PREFIX).lower().partition("_")
    if section == "listener":
        listener, setting = _of_listener(variable)
        table = values.setdefault(section, {}).setdefault(listener, {})
        table[setting.name] = _from_text(variable, setting, text)
        return
    known = {f"{ENV_PREFIX}{s}_{n}".upper(): f for s, c in SECTIONS.items() for n, f in fields_of(c).items()}
    known_name(variable, known, "environment variable ")
    values.setdefault(section, {})[name] = _from_text(variable, known[variable], text)


def _of_listener(variable: str) -> "tuple[str, Field[Any]]":
    """The listener, whose name may have underscores, and its setting: BRIDGE_LISTENER_<NAME>_<SETTING>."""
    text = variable.removeprefix(f"{ENV_PREFIX}LISTENER_")
    known = {f"_{name}".upper(): setting for name, setting in fields_of(ListenerSettings).items()}
    for ending, setting in known.items():
        if text.endswith(ending) and text != ending:
            return text.removesuffix(ending), setting
    shown = ", ".join(f"{ENV_PREFIX}LISTENER_<NAME>{ending}" for ending in known)
    raise SettingsError(f"unknown environment variable {variable}; known are {shown}")


def _from_text(variable: str, setting: "Field[Any]", text: str) -> object:
    if setting.type is bool:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise SettingsError(f'{variable} = "{text}": must be true or false')
    if setting.type in (int, float):
        try:
            return int(text) if setting.type is int else float(text)
        except ValueError:
            raise SettingsError(f'{variable} = "{text}": must be {allowed(setting)}') from None
    return text
