"""The table in docs/security.md of who may do what: `python -m tests.support.identity_page` writes it."""

from __future__ import annotations

from tests.pulsar_secured.matrix.cells import table
from tests.support.pages import put_between
from tests.support.sources import ROOT

PAGE = ROOT / "docs" / "security.md"
BEGIN, END = (
    "<!-- identities: begin, written by `python -m tests.support.identity_page` -->",
    "<!-- identities: end -->",
)


def main() -> None:
    """Write the page again."""
    put_between(PAGE, BEGIN, END, table())


if __name__ == "__main__":
    main()
