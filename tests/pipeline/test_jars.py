"""The connector's jars are those that were tested, or the job does not start."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bridge.pipeline.errors import Usage
from bridge.pipeline.jars import LOCKED, connector_jars


def test_the_cache_holds_what_is_locked(spark_jars: list[Path]) -> None:
    assert [jar.name for jar in spark_jars] == [jar.name for jar in LOCKED]


def test_a_damaged_jar_is_fetched_again(
    spark_jars: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache = tmp_path / "pulsar-kafka-bridge" / "spark-kafka-4.0.4" / "lib"
    cache.mkdir(parents=True)
    for jar in spark_jars:
        shutil.copy(jar, cache)
    (cache / spark_jars[0].name).write_bytes(b"damaged")
    assert [jar.read_bytes() for jar in connector_jars()] == [jar.read_bytes() for jar in spark_jars]


def test_a_directory_of_ones_own_is_checked(spark_jars: list[Path], tmp_path: Path) -> None:
    for jar in spark_jars:
        shutil.copy(jar, tmp_path)
    assert [jar.parent for jar in connector_jars(tmp_path)] == [tmp_path] * len(LOCKED)
    next(tmp_path.glob("kafka-clients*")).unlink()
    with pytest.raises(Usage, match="kafka-clients"):
        connector_jars(tmp_path)
