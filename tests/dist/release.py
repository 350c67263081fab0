"""`make release`: all that is published, made, checked and signed in dist/, so that a person only has to upload it.

`make release ARGS=--trial` goes through it where the version is not set yet. Nothing is sent anywhere.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from bridge import __version__
from tests.deploy import helm
from tests.dist.bill import bill
from tests.dist.installation import install_beside
from tests.support.image_digests import FILES, images
from tests.support.sources import ROOT

DIST = ROOT / "dist"
SUMS = DIST / "SHA256SUMS"
NAME = "pulsar-kafka-bridge"


def run(*command: str | Path) -> str:
    """What a command printed; its failure, quoted, ends the release."""
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}\nrelease: {' '.join(map(str, command))} ended with {done.returncode}")
    return done.stdout


def not_ready() -> Iterator[str]:
    """What is still to do before this version may be published, each with how."""
    first = re.search(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    if first is None or first[1].split()[0] != __version__:
        yield f'CHANGELOG.md begins with "{first and first[1]}": name that section {__version__}, or raise the version'
    chart = (helm.CHART / "Chart.yaml").read_text("utf-8")
    if set(re.findall(r"^(?:appV|v)ersion: (.+)$", chart, re.MULTILINE)) != {__version__}:
        yield f"the chart is not of version {__version__}: make helm"
    for file in FILES:
        if moving := [name for name, pinned in images((ROOT / file).read_text("utf-8")).items() if not pinned]:
            yield f"{file} has no digest of {', '.join(moving)}, whose tags may move: make images, with Docker"
    if changed := run("git", "status", "--porcelain"):
        yield f"{len(changed.splitlines())} files are not committed: a release is made of a commit"
    tagged = run("git", "tag", "--list", "--format=%(objectname)%(*objectname)", f"v{__version__}").strip()
    if tagged and not tagged.endswith(run("git", "rev-parse", "HEAD").strip()):
        yield f"v{__version__} is the tag of another commit: raise the version"


def notes() -> str:
    """What CHANGELOG.md says of the newest version."""
    return (ROOT / "CHANGELOG.md").read_text("utf-8").split("\n## ", 2)[1].partition("\n")[2].strip() + "\n"


def provenance(files: list[Path], began: datetime) -> str:
    """Of what, how and when these files were made: an in-toto statement with SLSA's predicate, version 1."""
    commit = run("git", "rev-parse", "HEAD").strip()
    locks = [*sorted((ROOT / "requirements").glob("*.lock")), ROOT / "native" / "Cargo.lock"]
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": one.name, "digest": {"sha256": digest(one)}} for one in files],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": f"urn:{NAME}:make-release:1",
                "externalParameters": {"version": __version__},
                "resolvedDependencies": [
                    {"name": "source", "digest": {"gitCommit": commit}},
                    *({"name": str(one.relative_to(ROOT)), "digest": {"sha256": digest(one)}} for one in locks),
                ],
            },
            "runDetails": {
                "builder": {"id": f"urn:{NAME}:a-machine-of-the-developers"},
                "metadata": {"startedOn": f"{began:%Y-%m-%dT%H:%M:%SZ}", "finishedOn": f"{_now():%Y-%m-%dT%H:%M:%SZ}"},
            },
        },
    }
    return json.dumps(statement, indent=1) + "\n"


def digest(file: Path) -> str:
    """SHA-256, in hexadecimal digits."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def checksums(files: list[Path]) -> str:
    """As `sha256sum --check` takes them."""
    return "".join(f"{digest(one)}  {one.name}\n" for one in sorted(files))


def sign(key: str) -> None:
    """Sign the checksums, and look at the signature."""
    run("gpg", "--batch", "--yes", "--local-user", key, "--armor", "--detach-sign", SUMS)
    run("gpg", "--batch", "--verify", f"{SUMS}.asc", SUMS)


def installs(wheel: Path) -> None:
    """Whether the wheel of this machine works where nothing else of the repository is."""
    with tempfile.TemporaryDirectory() as room:
        said = run(install_beside(wheel, Path(room) / "venv"), "--version")
    if said != f"bridge {__version__} (native codec)\n":
        sys.exit(f"release: {wheel.name} says {said!r}")


def _now() -> datetime:
    return datetime.now(UTC)


def made(arguments: argparse.Namespace) -> list[Path]:
    """All files of the release, made and looked at."""
    began = _now()
    print("building and checking the packages: some minutes", flush=True)
    # not by make, which hands down ARGS: --trial is none of its options
    python = Path(sys.prefix) / "dist" / "bin" / "python"
    run(python, "-m", "tests.dist", *(["--architecture", arguments.architecture] if arguments.architecture else []))
    packages = sorted((*DIST.glob("*.whl"), *DIST.glob("*.tar.gz")))
    here = [one for one in packages if one.name.endswith(f"_{arguments.architecture or 'x86_64'}.whl")]
    installs(*here)
    helm.lint()
    said = helm.run("package", helm.CHART, "--destination", DIST)
    if said.returncode != 0:
        sys.exit(f"release: {said.stderr}")
    commit_seconds = int(run("git", "log", "-1", "--format=%ct"))
    (DIST / f"{NAME}-{__version__}.cdx.json").write_text(bill(ROOT, __version__, commit_seconds), "utf-8")
    (DIST / "CHANGES.md").write_text(notes(), "utf-8")
    files = sorted(one for one in DIST.iterdir() if one.is_file())
    (DIST / f"{NAME}-{__version__}.intoto.json").write_text(provenance(files, began), "utf-8")
    files = sorted(one for one in DIST.iterdir() if one.is_file())
    SUMS.write_text(checksums(files), "utf-8")
    run("bash", "-c", f"cd {DIST} && sha256sum --check --quiet {SUMS.name}")
    return [*files, SUMS]


def publishing(signed: bool) -> str:
    """The commands that publish it, with the places to fill in."""
    tag, image = f"v{__version__}", f"REGISTRY/{NAME}:{__version__}"
    return f"""To publish (REGISTRY is yours; nothing was sent):
  git tag {"--sign" if signed else "--annotate"} {tag} --message {__version__} && git push origin {tag}
  .venv/dist/bin/twine upload dist/*.whl dist/*.tar.gz
  docker buildx build --platform linux/amd64,linux/arm64 --provenance=mode=max --sbom=true --tag {image} --push .
  helm push dist/bridge-{__version__}.tgz oci://REGISTRY
Beside them: SHA256SUMS{" with its signature" if signed else ""}, the bill of materials, the provenance, CHANGES.md."""


def main() -> None:
    """Make and check it, and say what to press."""
    parser = argparse.ArgumentParser(prog="make release", description=__doc__)
    parser.add_argument("--trial", action="store_true", help="go on where the version is not ready to be published")
    parser.add_argument("--architecture", help="wheels for this alone: with --trial")
    parser.add_argument("--sign", metavar="KEY", help="sign the checksums with this key of GnuPG's")
    arguments = parser.parse_args()
    lacking = list(not_ready())
    for one in lacking:
        print(f"not yet: {one}")
    if lacking and not arguments.trial:
        sys.exit("release: nothing was made; --trial goes through it all the same")
    shutil.rmtree(DIST, ignore_errors=True)
    files = made(arguments)
    if arguments.sign:
        sign(arguments.sign)
        files.append(Path(f"{SUMS}.asc"))
    else:
        print("not signed: make release ARGS='--sign KEY'")
    for entry in files:
        print(f"{entry.stat().st_size:>10,}  {entry.relative_to(ROOT)}")
    print(publishing(bool(arguments.sign)))


if __name__ == "__main__":
    main()
