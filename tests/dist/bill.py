"""The bill of materials of a release: what its packages have in them and bring along, as CycloneDX 1.6 in JSON.

It is made of the lock files alone, so that the same commit has the same one.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

Component = dict[str, object]
_LOCKED = re.compile(
    r"(?P<name>[A-Za-z0-9._-]+)(?:\[[\w,-]+\])?==(?P<version>[^\s;]+)(?: *; *(?P<marker>.+?))? +--hash"
)
_CHART = Path("bridge/http/status/page/vendor/uPlot.iife.min.js")


def bill(root: Path, version: str, seconds: int) -> str:
    """The document. `seconds`: when what is released was written, in Unix seconds."""
    required = list(_packages(root / "requirements" / "run.lock", "required"))
    known = {one["bom-ref"] for one in required}
    optional = _packages(root / "requirements" / "pipeline.lock", "optional")
    components = [*required, *(one for one in optional if one["bom-ref"] not in known), *_crates(root), _vendored(root)]
    components.sort(key=lambda one: str(one["bom-ref"]))
    purl = f"pkg:pypi/pulsar-kafka-bridge@{version}"
    content = json.dumps(components, sort_keys=True)
    made = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, f'{purl} {content}')}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application", "bom-ref": purl, "name": "pulsar-kafka-bridge", "version": version, "purl": purl,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            },
        },
        "components": components,
        "dependencies": [{"ref": purl, "dependsOn": [one["bom-ref"] for one in components]}],
    }  # fmt: skip
    return json.dumps(made, indent=1) + "\n"


def _packages(lock: Path, scope: str) -> Iterator[Component]:
    """Of Python, each with the digests of its files, of which a machine gets one."""
    for line in re.sub(r"\\\n", " ", lock.read_text("utf-8")).splitlines():
        if (found := _LOCKED.match(line)) is None:
            continue
        name = re.sub(r"[-_.]+", "-", found["name"]).lower()
        made = _component("pypi", name, found["version"], sorted(re.findall(r"--hash=sha256:([0-9a-f]{64})", line)))
        made["scope"] = scope
        if found["marker"]:
            made["properties"] = [{"name": "python:marker", "value": found["marker"]}]
        yield made


def _crates(root: Path) -> Iterator[Component]:
    """Of Rust, which are compiled into the native codec."""
    for one in tomllib.loads((root / "native" / "Cargo.lock").read_text("utf-8"))["package"]:
        if "checksum" in one:  # else it is ours
            yield _component("cargo", one["name"], one["version"], [one["checksum"]])


def _vendored(root: Path) -> Component:
    """What draws the status page's lines."""
    text = (root / _CHART).read_bytes()
    found = re.search(rb"uPlot \(v([\d.]+)\)", text)
    assert found, f"{_CHART} does not say its version"
    return _component("npm", "uplot", found[1].decode(), [hashlib.sha256(text).hexdigest()])


def _component(kind: str, name: str, version: str, digests: list[str]) -> Component:
    purl = f"pkg:{kind}/{name}@{version}"
    hashes = [{"alg": "SHA-256", "content": digest} for digest in digests]
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl, "hashes": hashes}
