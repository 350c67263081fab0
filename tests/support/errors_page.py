"""The part of docs/errors.md that is made from the code: `python -m tests.support.errors_page` writes it."""

from __future__ import annotations

import re

from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.storage import error_mapping
from tests.support.pages import put_between
from tests.support.sources import ROOT, python_files

PAGE = ROOT / "docs" / "errors.md"
BEGIN, END = "<!-- errors: begin, written by `python -m tests.support.errors_page` -->", "<!-- errors: end -->"


def table() -> str:
    """Pulsar's errors, each with Kafka's."""
    names = {int(number): name for name, number in pb.ServerError.items()}
    rows = [f"| {names[code]} | {error.name} |" for code, error in error_mapping._SERVER_ERRORS.items()]
    return "\n".join(["| Pulsar | Kafka |", "|---|---|", *rows])


def sent() -> set[ErrorCode]:
    """The codes that the bridge's code names."""
    named = set()
    for path in python_files("bridge"):
        if path.name != "error_codes.py":
            named |= set(re.findall(r"\bErrorCode\.([A-Z_]+)\b", path.read_text("utf-8")))
    return {ErrorCode[name] for name in named} - {ErrorCode.NONE}


def main() -> None:
    """Write the page again."""
    put_between(PAGE, BEGIN, END, table())


if __name__ == "__main__":
    main()
