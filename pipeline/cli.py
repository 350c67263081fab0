"""The command line: one sub-command a job, and exit codes that a script can act on."""

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from pipeline.context import Context
from pipeline.errors import PipelineError
from pipeline.jobs import Job, all_jobs
from pipeline.progress import Progress
from pipeline.report import Report
from pipeline.session import SessionOptions, failure_of

_EXIT_CODES = "exit codes: 0 ok, 1 differences, 2 usage, 3 data loss or a broken guarantee, 4 endpoint failure"
_INTERRUPTED = 130, "interrupted; the same command goes on where this one stopped"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one job."""
    jobs = all_jobs()
    arguments = make_parser(jobs).parse_args(argv)
    logging.disable(logging.CRITICAL)  # one line replaces the long traces of libraries
    progress = Progress(arguments.progress)
    context = Context(session_options(arguments), progress, Report(arguments.report, arguments.job))
    context.catch_signals()
    try:
        return run(jobs[arguments.job], arguments, context)
    finally:
        progress.close()
        context.close()


def run(job: Job, arguments: argparse.Namespace, context: Context) -> int:
    """Run a job in a context, write its report, and report what ends it early in one line."""
    code, error = 4, None
    try:
        code = job.run(arguments, context)
    except KeyboardInterrupt:
        code, error = _INTERRUPTED
    except Exception as failure:
        # an interruption makes running work fail, which libraries report in errors of their own
        found = failure if isinstance(failure, PipelineError) else failure_of(failure)
        if context.interrupted:
            code, error = _INTERRUPTED
        elif found is None:  # neither ours nor Spark's: a bug, which shows its trace
            raise
        else:
            code, error = found.exit_code, str(found)
    finally:
        context.report.write(code, error)
    if error is not None:
        context.progress.close()
        print(f"bridge-pipeline: {error}", file=sys.stderr)
    return code


def make_parser(jobs: dict[str, Job]) -> argparse.ArgumentParser:
    """The parser with one sub-command a job; parse errors exit with 2, as argparse does."""
    parser = argparse.ArgumentParser("bridge-pipeline", description=__doc__, epilog=_EXIT_CODES)
    commands = parser.add_subparsers(dest="job", required=True, metavar="JOB")
    for name, job in jobs.items():
        command = commands.add_parser(name, help=job.HELP, description=job.HELP, epilog=_EXIT_CODES)
        job.add_arguments(command)
        _add_common(command)
    return parser


def _add_common(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("every job")
    group.add_argument("--dry-run", action="store_true", help="say what would be done; write nothing")
    group.add_argument("--report", metavar="FILE", type=Path, help="write what was done as JSON")
    style = "text" if sys.stderr.isatty() else "json"
    group.add_argument("--progress", choices=["text", "json", "quiet"], default=style, help=f"(here: {style})")
    group.add_argument("--master", metavar="URL", help="Spark's master (default: local[*])")
    group.add_argument("--driver-memory", metavar="SIZE", default="2g", help="(default: %(default)s)")
    group.add_argument("--shuffle-partitions", metavar="N", type=int, default=4, help="(default: %(default)s)")
    group.add_argument("--jars", metavar="DIR", type=Path, help="the connector's jars, instead of fetching them")


def session_options(arguments: argparse.Namespace) -> SessionOptions:
    """Spark's part of the common options."""
    return SessionOptions(arguments.master, arguments.driver_memory, arguments.shuffle_partitions, arguments.jars)
