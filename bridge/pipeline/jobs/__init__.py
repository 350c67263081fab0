"""The jobs. Every module here is one sub-command, found by its name: what it must have is `Job`.

Code that several jobs share lies beside this package, never in it.
"""

import argparse
import importlib
import pkgutil
from collections.abc import Mapping
from typing import Protocol, cast

from bridge.pipeline.context import Context


class Job(Protocol):
    """What a job's module defines."""

    NAME: str
    """The sub-command."""
    HELP: str
    """One line for `--help`."""
    EXAMPLES: tuple[tuple[str, str], ...]
    """For `--help`: what for, and the words behind the job's name."""
    ENDS: Mapping[int, str]
    """For `--help`: what an exit code means of this job alone, or more exactly than of all."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the job's own options; `cli/command.py` adds those that all jobs share."""
        ...

    def run(self, arguments: argparse.Namespace, context: Context) -> int:
        """Do the job and return the exit code; raise a `PipelineError` to end it with one line for the user.

        With `--dry-run` (`arguments.dry_run`) a job prints its plan through `context.progress` and writes nothing.
        """
        ...


def all_jobs() -> dict[str, Job]:
    """Every job by its name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    jobs = [cast(Job, importlib.import_module(f"{__name__}.{name}")) for name in names]
    return {job.NAME: job for job in jobs}
