"""The example of Spark in docs/clients.md, run in the session of these tests."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from bridge.pipeline.options import EndpointOptions
from tests.support.examples import blocks, replaced
from tests.support.sources import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_example_of_spark(
    spark: SparkSession, at_bridge: EndpointOptions, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = f"greetings-{uuid4().hex[:8]}"
    program = blocks(ROOT / "docs" / "clients.md")["spark"]
    exec(replaced(program, {"127.0.0.1:9092": at_bridge.bootstrap, "greetings": topic}), {"spark": spark})  # noqa: S102
    shown = capsys.readouterr().out
    assert [cell.strip() for cell in shown.splitlines()[3].strip("|").split("|")][1:] == ["0", "0", "hello"]
