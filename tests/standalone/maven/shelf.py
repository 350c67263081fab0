"""Three small jars, and a shelf that they are fetched from."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from bridge.standalone.maven import Jar, MavenFetch

GOOD = b"the right bytes"
JARS = tuple(Jar(hashlib.sha256(GOOD + bytes([i])).hexdigest(), f"org.example:part{i}:1.0") for i in range(3))


class Shelf(MavenFetch):
    """Stands where Maven would: serves files from a shelf, and from a second one when asked past the repository."""

    def __init__(self, shelf: dict[str, bytes], beyond: dict[str, bytes] | None = None) -> None:
        super().__init__(lambda line: None, "the example", "1 MB")
        self.shelf = shelf
        self.beyond = shelf if beyond is None else beyond
        self.fetched: list[list[str]] = []

    def run(
        self,
        coordinates: Sequence[str],
        target: Path,
        repository: Path | None = None,
        *,
        transitive: bool = False,
        versions_of: str = "",
    ) -> None:
        names = [Jar("", line).name for line in coordinates]
        self.fetched.append(names)
        source = self.shelf if repository is None else self.beyond
        for name in names:
            (target / name).write_bytes(source[name])


def right() -> dict[str, bytes]:
    return {jar.name: GOOD + bytes([i]) for i, jar in enumerate(JARS)}
