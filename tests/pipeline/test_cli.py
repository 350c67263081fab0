"""The command line: exit codes, one line of error, a report however the job ends."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import re
import shlex
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from bridge import __version__
from bridge.pipeline import cli
from bridge.pipeline.context import Context
from bridge.pipeline.errors import DataLoss, Differences, Endpoint, PipelineError, Usage
from bridge.pipeline.jobs import all_jobs
from bridge.pipeline.progress import Progress
from bridge.pipeline.report import Report
from bridge.pipeline.session import SessionOptions, failure_of


class Job:
    NAME, HELP = "job", "a job"
    EXAMPLES: tuple[tuple[str, str], ...] = (("what for", "--words"),)
    ENDS: Mapping[int, str] = {}

    def __init__(self, outcome: int | BaseException) -> None:
        self._outcome = outcome

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """It has none."""

    def run(self, arguments: argparse.Namespace, context: Context) -> int:
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        context.report.set(done=True)
        return self._outcome


def ended(outcome: int | BaseException, path: Path | None = None) -> int:
    return run(Job(outcome), path)


def run(job: Job, path: Path | None = None) -> int:
    context = Context(SessionOptions(), Progress("quiet"), Report(path, "job"))
    return cli.run(job, argparse.Namespace(), context)


@pytest.mark.parametrize(
    ("error", "code"), [(Differences, 1), (Usage, 2), (DataLoss, 3), (Endpoint, 4), (PipelineError, 4)]
)
def test_what_ends_a_job_early_is_one_line_and_a_code(
    error: type[PipelineError], code: int, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert ended(error("why"), tmp_path / "report.json") == code
    assert capsys.readouterr().err == "bridge-pipeline: why\n"
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["job"], report["exit_code"], report["error"]) == ("job", code, "why")


@pytest.mark.parametrize("package", ["pyspark.sql", "kafka"])
def test_what_is_not_installed_is_one_line_with_the_remedy(package: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(ModuleNotFoundError(f"No module named {package!r}", name=package)) == 2
    said = f"bridge-pipeline: {package} is not installed: pip install 'pulsar-kafka-bridge[pipeline]'\n"
    assert capsys.readouterr().err == said
    with pytest.raises(ModuleNotFoundError):  # one of ours is a bug
        ended(ModuleNotFoundError("No module named 'bridge.nothing'", name="bridge.nothing"))


def test_a_job_that_ends_well_leaves_its_facts(tmp_path: Path) -> None:
    assert ended(1, tmp_path / "report.json") == 1
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["done"], report["exit_code"]) == (True, 1)


def test_a_bug_shows_its_trace() -> None:
    with pytest.raises(ZeroDivisionError):
        ended(ZeroDivisionError())


def test_an_interruption_says_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(KeyboardInterrupt()) == 130
    assert "goes on where this one stopped" in capsys.readouterr().err


class ClientJob(Job):
    """Uses a library that takes an interruption for an error of its connection, as kafka-python does."""

    def __init__(self, told: Exception | None) -> None:
        super().__init__(0)
        self._told = told

    def run(self, arguments: argparse.Namespace, context: Context) -> int:
        context.catch_signals()
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        if self._told is not None:
            raise self._told
        context.go_on()
        return super().run(arguments, context)


@pytest.mark.parametrize("told", [Endpoint("socket disconnected"), OSError("closed"), None])
def test_an_interruption_is_one_whatever_a_library_makes_of_it(told: Exception | None) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        assert run(ClientJob(told)) == 130
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_what_spark_raises_tells_loss_from_failure() -> None:
    lost = PySparkException("Job aborted\nCaused by: x.OffsetOutOfRangeException: Fetch position out of range\n")
    failed = PySparkException("Job aborted\nCaused by: a.B: c\nCaused by: x.TimeoutException: no answer\n")
    assert isinstance(failure_of(lost), DataLoss)
    assert str(failure_of(failed)) == "x.TimeoutException: no answer"
    assert failure_of(ValueError()) is None


def test_every_job_has_help_and_the_common_options(capsys: pytest.CaptureFixture[str]) -> None:
    jobs = all_jobs()
    assert {"archive", "copy", "replay", "verify"} <= jobs.keys()
    for name in jobs:
        with pytest.raises(SystemExit) as ended_with:
            cli.make_parser(jobs).parse_args([name, "--help"])
        assert ended_with.value.code == 0
        said = capsys.readouterr().out
        assert "--dry-run" in said
        assert all(f"bridge-pipeline {name} {words}" in said for _, words in jobs[name].EXAMPLES)
        told = dict(re.findall(r"^  (\d+) +(\S.*)$", said.partition("exit codes:\n")[2], re.MULTILINE))
        own = {str(code): meaning for code, meaning in jobs[name].ENDS.items()}
        assert told.keys() == {str(code) for code in cli.EXIT_CODES} - ({"1"} if name != "reconcile" else set())
        assert own.items() <= told.items()


def test_the_examples_of_the_help_are_command_lines() -> None:
    jobs = all_jobs()
    for name, job in jobs.items():
        assert job.EXAMPLES
        for _, words in job.EXAMPLES:
            cli.make_parser(jobs).parse_args([name, *shlex.split(words.partition("|")[0])])


def test_every_exit_code_is_told() -> None:
    errors = (Differences, Usage, DataLoss, Endpoint, PipelineError)
    assert {0, 130, *(error.exit_code for error in errors)} == set(cli.EXIT_CODES)


def test_the_report_is_printed_for_a_script(capsys: pytest.CaptureFixture[str]) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        assert cli.main(["verify", "--archive", "/no/such", "--json"]) == 2
    finally:
        logging.disable(logging.NOTSET)
        for number, handler in before.items():
            signal.signal(number, handler)
    told = capsys.readouterr()
    report = json.loads(told.out)
    assert (report["job"], report["exit_code"], report["error"]) == ("verify", 2, "file:/no/such is no archive")
    assert told.err == "bridge-pipeline: file:/no/such is no archive\n"


def test_a_word_that_is_no_job_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended_with:
        cli.main(["nothing"])
    assert ended_with.value.code == 2
    assert "nothing" in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--version"])
    assert capsys.readouterr().out == f"bridge-pipeline {__version__}\n"
