"""The option that names the document into which the fault run writes its time line."""

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--time-line", type=Path, help="write what the alerts did into this document")
