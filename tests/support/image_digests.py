"""Pins the images of the Dockerfile and the compose file by digest, with `python -m tests.support.image_digests`.

The tag stays, for readers and for what looks for newer ones; an engine goes by the digest behind it. The images'
registry is asked for digests by `docker buildx imagetools`, so they are those of all architectures together.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from typing import Final

from tests.support.programs import require
from tests.support.sources import ROOT

FILES: Final = ("Dockerfile", "docker-compose.yml")
_IMAGE: Final = re.compile(r"^(FROM |\s+image: )([\w./-]+:[\w.-]+)(?:@sha256:[0-9a-f]{64})?(?=\s|$)", re.MULTILINE)
"""Those with a tag: what the compose file builds itself has none."""


def pinned(text: str, digest_of: Callable[[str], str]) -> str:
    """The text with the digest that each image has now, behind its tag."""
    return _IMAGE.sub(lambda found: f"{found[1]}{found[2]}@{digest_of(found[2])}", text)


def unpinned(text: str) -> str:
    """The text with the images' tags alone."""
    return _IMAGE.sub(lambda found: found[1] + found[2], text)


def images(text: str) -> dict[str, bool]:
    """The images of a text, and whether each is pinned."""
    return {found[2]: "@" in found[0] for found in _IMAGE.finditer(text)}


def _asked(image: str) -> str:
    docker = require("docker", "https://docs.docker.com/engine/install/")
    command = [docker, "buildx", "imagetools", "inspect", "--format", "{{.Manifest.Digest}}", image]
    digest = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    if re.fullmatch(r"sha256:[0-9a-f]{64}", digest) is None:
        raise SystemExit(f"{image}: {digest!r} is no digest")
    return digest


if __name__ == "__main__":
    for name in FILES:
        file = ROOT / name
        file.write_text(pinned(file.read_text(encoding="utf-8"), _asked), encoding="utf-8")
