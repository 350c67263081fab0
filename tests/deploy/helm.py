"""Helm's chart: how it is rendered, and what was rendered of it.

`python -m tests.deploy.helm` (`make helm`) lints the chart and writes its renderings; it needs helm. What checks the
renderings does not: each says in its first line which state of the chart it is of.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from bridge import __version__
from bridge.standalone.maven import cache_directory
from tests.support.programs import require
from tests.support.sources import ROOT

CHART = ROOT / "config" / "helm" / "bridge"
HERE = Path(__file__).parent / "charts"
VERSION = "v3.18.6"
KUBERNETES = "1.30.0"
"""What Helm is told that it renders for; the schemas of other versions are tried on the same."""
_NOTES = """apiVersion: v1
kind: ConfigMap
metadata: {name: notes}
data: {notes: {{ tpl (.Files.Get "notes.txt") . | toJson }}}
"""


@dataclass(frozen=True)
class Rendering:
    """The chart with values, as a file of this repository."""

    file: Path
    values: Path | None = None
    apis: tuple[str, ...] = ()
    """Of the cluster, beside Kubernetes' own."""

    @property
    def notes(self) -> Path:
        """What Helm tells who has installed it."""
        return HERE / f"{self.file.name.partition('.')[0]}.notes.txt"

    @property
    def options(self) -> tuple[str, ...]:
        """Helm's, for it."""
        values = () if self.values is None else (f"--values={self.values}",)
        return (*values, *(f"--api-versions={one}" for one in self.apis))

    @property
    def first_line(self) -> str:
        """Says of what it was made: the digest of the chart's files and of the values."""
        digest = hashlib.sha256()
        files = sorted(path for path in CHART.rglob("*") if path.is_file() and path.suffix != ".md")
        for path in files if self.values is None else [*files, self.values]:
            digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
        return f"# Made from config/helm/bridge by `make helm`; do not edit. {digest.hexdigest()}\n"


RENDERINGS = {
    "default": Rendering(ROOT / "config" / "kubernetes" / "bridge.yaml"),
    "full": Rendering(HERE / "full.rendered.yaml", HERE / "full.values.yaml"),
    "openshift": Rendering(
        HERE / "openshift.rendered.yaml", HERE / "openshift.values.yaml", apis=("security.openshift.io/v1",)
    ),
}


def helm() -> str:
    """The helm of this machine; otherwise one that Go builds, once: a minute and a half."""
    found = shutil.which("helm")
    if found is not None:
        return found
    directory = cache_directory() / f"helm-{VERSION}"
    if not (directory / "helm").is_file():
        print(f"helm is not here: Go builds {VERSION}", file=sys.stderr)
        environment = {**os.environ, "GOBIN": str(directory)}
        go = require("go", "Go 1.23 or newer, or helm itself")
        subprocess.run([go, "install", f"helm.sh/helm/v3/cmd/helm@{VERSION}"], env=environment, check=True)
    return str(directory / "helm")


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Helm, with what it prints."""
    return subprocess.run([helm(), *arguments], capture_output=True, text=True, check=False)


def lint(values: Sequence[Path] = ()) -> None:
    """Have Helm look at the chart; it ends with what Helm finds."""
    said = run("lint", "--strict", "--kube-version", KUBERNETES, *(f"--values={path}" for path in values), CHART)
    assert said.returncode == 0, said.stdout + said.stderr


def render(one: Rendering, *more: str) -> str:
    """The chart as Helm renders it."""
    said = run("template", "bridge", CHART, "--namespace=kafka", f"--kube-version={KUBERNETES}", *one.options, *more)
    if said.returncode != 0:
        raise ValueError(said.stderr)
    return one.first_line + said.stdout


def notes(one: Rendering) -> str:
    """What Helm tells who has installed the chart. It tells that only where there is a cluster, so the text is rendered
    as an object's."""
    with tempfile.TemporaryDirectory() as room:
        copy = Path(room) / "bridge"
        shutil.copytree(CHART, copy)
        (copy / "templates" / "NOTES.txt").rename(copy / "notes.txt")
        (copy / "templates" / "notes.yaml").write_text(_NOTES, "utf-8")
        options = (*one.options, f"--kube-version={KUBERNETES}", "--show-only=templates/notes.yaml")
        said = run("template", "bridge", copy, "--namespace=kafka", *options)
    if said.returncode != 0:
        raise ValueError(said.stderr)
    return str(yaml.safe_load(said.stdout)["data"]["notes"])


def set_version() -> None:
    """Write the bridge's version, which stands in bridge/__init__.py, where Helm has its own."""
    file = CHART / "Chart.yaml"
    text = re.sub(r"^((?:appV|v)ersion): .+$", rf"\1: {__version__}", file.read_text("utf-8"), flags=re.MULTILINE)
    file.write_text(text, "utf-8")


if __name__ == "__main__":
    set_version()
    lint()
    for rendering in RENDERINGS.values():
        rendering.file.write_text(render(rendering), encoding="utf-8")
        rendering.notes.write_text(notes(rendering), encoding="utf-8")
        print(rendering.file.relative_to(ROOT), rendering.notes.relative_to(ROOT))
