"""The tables of docs/limits.md, made from the code: `python -m tests.support.limits` writes them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bridge import apis
from bridge.config import Settings
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.primitives import MAX_ELEMENTS
from bridge.requests.api import Api, RequestLimit
from tests.support.pages import put_between

PAGE = Path(__file__).parents[2] / "docs" / "limits.md"
BEGIN, END = "<!-- limits: begin, written by `python -m tests.support.limits` -->", "<!-- limits: end -->"


def default(name: str) -> Any:
    """A setting's default."""
    section, _, setting = name.partition(".")
    return getattr(getattr(Settings(), section), setting)


def table() -> str:
    """One row for each bound of an API of its own, in the order of their names."""
    rows = ["| API | bound | most | beyond it |", "|---|---|---:|---|"]
    for api in sorted(apis.load().values(), key=lambda api: api.name):
        rows += [_row(api.name, one) for one in api.limits]
    return "\n".join([*rows, "", *_without_a_place()])


def _row(name: str, limit: RequestLimit) -> str:
    most = f"`{limit.maximum}` ({default(limit.maximum):,})" if isinstance(limit.maximum, str) else f"{limit.maximum:,}"
    beyond = limit.exceeded.name if isinstance(limit.exceeded, ErrorCode) else limit.exceeded
    return f"| {name} | {limit.what} | {most} | {beyond} |"


def _without_a_place() -> Iterator[str]:
    """Which APIs can only close the connection on a request with too many elements."""
    closing = sorted(api.name for api in apis.load().values() if not _tells(api))
    yield f"More than {MAX_ELEMENTS:,} elements: INVALID_REQUEST. Where the newest version of the answer has no place"
    yield "for an error of the whole request, the connection is closed:"
    yield from textwrap.wrap(", ".join(closing) + ".", 120)


def _tells(api: Api) -> bool:
    return api.failure(None, ErrorCode.INVALID_REQUEST, "", api.max_version) is not None


def main() -> None:
    """Write the page's tables."""
    put_between(PAGE, BEGIN, END, table())


if __name__ == "__main__":
    main()
