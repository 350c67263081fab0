"""The command line: one sub-command a job, and exit codes that a script can act on."""

import argparse
import logging
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from bridge import __version__
from bridge.pipeline.completion import script
from bridge.pipeline.context import Context
from bridge.pipeline.errors import PipelineError, Usage
from bridge.pipeline.jobs import Job, all_jobs
from bridge.pipeline.progress import Progress
from bridge.pipeline.report import Report
from bridge.pipeline.session import SessionOptions, failure_of

EXIT_CODES: Final = {
    0: "done",
    1: "`reconcile`: the sides differ",
    2: "wrong usage, or it cannot be done as asked; nothing was written",
    3: "records are gone, or an endpoint broke a guarantee",
    4: "an endpoint or Spark failed; the same command goes on where it stopped",
    130: "interrupted; the same command goes on where it stopped",
}
"""What each exit code means, of every job."""
SHELLS: Final = ("bash", "zsh", "fish")
_EXTRA: Final = ("kafka", "matplotlib", "pyspark")
_INTERRUPTED = 130, "interrupted; the same command goes on where this one stopped"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one job."""
    jobs = all_jobs()
    arguments = make_parser(jobs).parse_args(argv)
    if arguments.job == "completion":
        print(script(make_parser(jobs), arguments.shell))
        return 0
    logging.disable(logging.CRITICAL)  # one line replaces the long traces of libraries
    progress = Progress(arguments.progress)
    report = Report(arguments.report, arguments.job, sys.stdout if arguments.json else None)
    context = Context(session_options(arguments), progress, report)
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
        context.report.check()
        code = job.run(arguments, context)
    except KeyboardInterrupt:
        code, error = _INTERRUPTED
    except Exception as failure:
        # an interruption makes running work fail, which libraries report in errors of their own
        found = failure if isinstance(failure, PipelineError) else _not_installed(failure) or failure_of(failure)
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


def _not_installed(failure: Exception) -> Usage | None:
    if isinstance(failure, ModuleNotFoundError) and str(failure.name).partition(".")[0] in _EXTRA:
        return Usage(f"{failure.name} is not installed: pip install 'pulsar-kafka-bridge[pipeline]'")
    return None


def make_parser(jobs: dict[str, Job]) -> argparse.ArgumentParser:
    """The parser with one sub-command a job; parse errors exit with 2, as argparse does."""
    parser = argparse.ArgumentParser(
        "bridge-pipeline",
        description=__doc__,
        epilog=_exit_codes(EXIT_CODES),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"bridge-pipeline {__version__}")
    commands = parser.add_subparsers(dest="job", required=True, metavar="JOB")
    for name, job in jobs.items():
        command = _command(commands, name, job.HELP, job.EXAMPLES, _own(job.ENDS))
        job.add_arguments(command)
        _add_common(command)
    words = "print what a shell needs to complete this command's words"
    examples = (("for bash, in this shell", "bash >words && . ./words"),)
    completion = _command(commands, "completion", words, examples, {code: EXIT_CODES[code] for code in (0, 2)})
    completion.add_argument("shell", choices=SHELLS)
    return parser


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    what: str,
    examples: tuple[tuple[str, str], ...],
    codes: Mapping[int, str],
) -> argparse.ArgumentParser:
    shown = "\n".join(f"  # {purpose}\n  bridge-pipeline {name} {words}" for purpose, words in examples)
    return commands.add_parser(
        name,
        help=what,
        description=what,
        epilog=f"examples:\n{shown}\n\n{_exit_codes(codes)}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _own(ends: Mapping[int, str]) -> dict[int, str]:
    """The exit codes of one job: those of all, without those that others alone have, and with its own words."""
    others = {code for code, meaning in EXIT_CODES.items() if meaning.startswith("`")}
    return {code: ends.get(code, meaning) for code, meaning in EXIT_CODES.items() if code in ends or code not in others}


def _exit_codes(codes: Mapping[int, str]) -> str:
    return "exit codes:\n" + "\n".join(f"  {code:<3}  {meaning.replace('`', '')}" for code, meaning in codes.items())


def _add_common(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("every job")
    group.add_argument("--dry-run", action="store_true", help="say what would be done; write nothing")
    group.add_argument("--report", metavar="FILE", type=Path, help="write what was done as JSON")
    group.add_argument("--json", action="store_true", help="the same on standard output, for a script")
    style = "text" if sys.stderr.isatty() else "json"
    group.add_argument(
        "--progress", choices=["text", "json", "quiet"], default=style, help="(default: text on a terminal, json else)"
    )
    group.add_argument("--master", metavar="URL", help="Spark's master (default: local[*])")
    group.add_argument("--driver-memory", metavar="SIZE", type=_size, default="2g", help="(default: %(default)s)")
    group.add_argument("--shuffle-partitions", metavar="N", type=_count, default=4, help="(default: %(default)s)")
    group.add_argument("--jars", metavar="DIR", type=Path, help="the connector's jars, instead of fetching them")


def _size(text: str) -> str:
    """What a JVM takes as a size; in it, a mistake would show only when Spark starts."""
    if not re.fullmatch(r"[1-9]\d*[kmgt]?", text, re.IGNORECASE):
        raise argparse.ArgumentTypeError(f"{text!r} is no size of memory: 512m, 2g")
    return text


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return int(text)


def session_options(arguments: argparse.Namespace) -> SessionOptions:
    """Spark's part of the common options."""
    return SessionOptions(arguments.master, arguments.driver_memory, arguments.shuffle_partitions, arguments.jars)
