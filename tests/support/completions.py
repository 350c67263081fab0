"""Makes what `bridge completion` and `bridge-pipeline completion` print, by shtab from their parsers.

`python -m tests.support.completions` writes the files: users get them without shtab.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import shtab

from bridge.cli import parser
from bridge.pipeline import cli
from bridge.pipeline.jobs import all_jobs
from tests.support.sources import ROOT

DIRECTORIES = {"--data-dir", "--out", "--archive", "--a-archive", "--b-archive", "--offset-map", "--jars"}
FILES = {"--b-native-token"}


def scripts() -> dict[Path, str]:
    """Each file, and what it has to hold."""
    parsers = {
        ROOT / "bridge" / "cli" / "completion" / "bridge": parser.make_parser(),
        ROOT / "bridge" / "pipeline" / "completion" / "bridge-pipeline": cli.make_parser(all_jobs()),
    }
    return {
        path.with_name(f"{path.name}.{shell}"): _script(made, shell)
        for path, made in parsers.items()
        for shell in parser.SHELLS
    }


def _script(parser: argparse.ArgumentParser, shell: str) -> str:
    for action in _actions(parser):
        if DIRECTORIES.intersection(action.option_strings):
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        elif action.type is Path or FILES.intersection(action.option_strings):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    text: str = shtab.complete(parser, shell)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)


def main() -> None:
    """Write the files."""
    for path, text in scripts().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
