"""Writes the dashboards: `python -m config.grafana.generate`. Change them here, not in Grafana."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from config.grafana.boards import boards

DIRECTORY = Path(__file__).parent / "dashboards"


def files() -> Iterator[tuple[str, str]]:
    """The name and the content of each file."""
    for board in boards():
        built = board.build()
        yield f"{built.uid}.json", JSONEncoder(sort_keys=True, indent=1).encode(built) + "\n"


def main() -> None:
    """Write all, and remove what is no dashboard any more."""
    written = dict(files())
    for path in DIRECTORY.glob("*.json"):
        if path.name not in written:
            path.unlink()
    for name, content in written.items():
        (DIRECTORY / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
