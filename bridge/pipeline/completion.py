"""What a shell needs to complete a command's words: shtab makes it of the command's parser."""

import argparse
from pathlib import Path


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The script for `shell`. Where a path is to be given, files and directories are completed."""
    import shtab

    _mark_paths(parser)
    return shtab.complete(parser, shell)


def _mark_paths(parser: argparse.ArgumentParser) -> None:
    for action in parser._actions:
        if action.type is Path or action.metavar == "DIR":
            action.complete = "file"  # type: ignore[attr-defined]
        elif isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _mark_paths(command)
