"""The table of APIs and rights: complete, in docs/security.md as it is in the code, and every refusal can be told."""

from pathlib import Path

import pytest

from bridge import apis
from bridge.guards.table import GUARDS
from bridge.requests.api import Api
from bridge.security.acls import SUPPORTED

_APIS = apis.load()
_DOCS = Path(__file__).parents[2] / "docs" / "security.md"


def rows() -> list[str]:
    """The table as docs/security.md has it."""
    found = []
    for key, api in sorted(_APIS.items(), key=lambda item: item[1].name):
        rights = [
            f"{right.operation.name} {right.type.name}" + (f" ({right.note})" if right.note else "")
            for right in GUARDS[key].rights
        ]
        found.append(f"| {api.name} | {'; '.join(rights) or 'none'} |")
    return found


def test_every_api_has_a_row() -> None:
    assert GUARDS.keys() == _APIS.keys()


def test_the_documentation_has_the_table() -> None:
    text = _DOCS.read_text()
    missing = [row for row in rows() if row not in text]
    assert not missing, "\n".join(["docs/security.md lacks:", *rows()])


@pytest.mark.parametrize("key", sorted(_APIS))
def test_the_rights_are_ones_that_entries_can_give(key: int) -> None:
    for right in GUARDS[key].rights:
        assert right.operation in SUPPORTED[right.type], right


def _tells_errors(api: Api) -> bool:
    return all(api.failure(1, "", version) is not None for version in range(api.min_version, api.max_version + 1))


@pytest.mark.parametrize("key", [key for key, guard in GUARDS.items() if guard.refuses_whole])
def test_what_refuses_a_request_as_a_whole_has_a_place_for_the_error(key: int) -> None:
    assert _tells_errors(_APIS[key])
