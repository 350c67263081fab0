"""What a release says of itself: its bill of materials, its checksums, its notes, and whether it may be published."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bridge import __version__
from tests.dist import release
from tests.dist.bill import bill
from tests.support.sources import ROOT


def test_the_bill_has_every_package_of_the_lock_files_with_its_digests() -> None:
    made = json.loads(bill(ROOT, __version__, 0))
    assert (made["bomFormat"], made["specVersion"], made["version"]) == ("CycloneDX", "1.6", 1)
    found = {one["purl"]: one for one in made["components"]}
    assert len(found) == len(made["components"])
    for lock, kind, locked in (
        ("requirements/run.lock", "pypi", r"^([\w.-]+)(?:\[.+?\])?==([^\s;]+)"),
        ("native/Cargo.lock", "cargo", r'^name = "(.+)"\nversion = "(.+)"\nsource'),
    ):
        pairs = re.findall(locked, (ROOT / lock).read_text("utf-8"), re.MULTILINE)
        assert len(pairs) > 10
        for name, version in pairs:
            assert found[f"pkg:{kind}/{name.lower().replace('_', '-') if kind == 'pypi' else name}@{version}"]["hashes"]
    (page,) = (one for purl, one in found.items() if purl.startswith("pkg:npm/uplot@"))
    assert page["hashes"][0]["alg"] == "SHA-256"
    assert set(made["dependencies"][0]["dependsOn"]) == set(found)
    assert made["metadata"]["component"]["version"] == __version__


def test_the_same_commit_has_the_same_bill() -> None:
    assert bill(ROOT, __version__, 7) == bill(ROOT, __version__, 7)
    first, later = (json.loads(bill(ROOT, version, 7))["serialNumber"] for version in ("1.0.0", "1.0.1"))
    assert first != later


def test_checksums_and_provenance_are_of_the_files(tmp_path: Path) -> None:
    one = tmp_path / "one.whl"
    one.write_bytes(b"content")
    digest = hashlib.sha256(b"content").hexdigest()
    assert release.checksums([one]) == f"{digest}  one.whl\n"
    told = json.loads(release.provenance([one], datetime.now(UTC)))
    assert told["subject"] == [{"name": "one.whl", "digest": {"sha256": digest}}]
    (source,) = (one for one in told["predicate"]["buildDefinition"]["resolvedDependencies"] if one["name"] == "source")
    assert re.fullmatch(r"[0-9a-f]{40}", source["digest"]["gitCommit"])


def test_the_notes_are_the_newest_section_of_the_change_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 2.0.0\n\n- New.\n\n## 1.0.0\n\n- Old.\n", "utf-8")
    monkeypatch.setattr(release, "ROOT", tmp_path)
    assert release.notes() == "- New.\n"


def test_what_is_unreleased_is_not_published() -> None:
    first = re.search(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert first is not None
    told = [one for one in release.not_ready() if one.startswith("CHANGELOG.md")]
    assert bool(told) == (first[1].split()[0] != __version__)
