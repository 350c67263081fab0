"""Downloads are counted by what Maven says."""

import sys

import pytest

from bridge.standalone.maven.maven import Downloads
from tests.support.terminal import Terminal

WANTED = {f"a-{number}.jar" for number in range(1, 5)}
SAID = (
    "[INFO] Downloaded from central: https://repo/a/a-1.pom (500 kB at 1 MB/s)",
    "[INFO] Downloaded from central: https://repo/maven/plugin-3.jar (1.5 MB at 1 MB/s)",
    "[INFO] Downloaded from central: https://repo/a/a-1.jar (4.0 MB at 1 MB/s)",
    "[INFO] BUILD SUCCESS",
)


@pytest.mark.parametrize(("jars", "shown"), [(WANTED, "| 1/4 ["), (set(), "2 jars [")])
def test_downloads_are_counted_by_what_maven_says(jars: set[str], shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", out := Terminal())
    downloads = Downloads(jars)
    for line in SAID:
        downloads.read(line)
    assert shown in str(downloads.bar)
    assert str(downloads.bar).endswith(", 6 MB]")
    downloads.bar.close()
    assert out.getvalue().endswith("\r")
