"""Rights: all APIs have theirs, docs/security.md has the table as it is in the code, and every refusal can be told."""

from pathlib import Path

import pytest

from bridge import apis
from bridge.apis import describe_topic_partitions, metadata
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import with_defaults
from bridge.requests.api import Api
from bridge.security.acls import SUPPORTED

_APIS = apis.load()
_LISTING = (metadata.API, describe_topic_partitions.API)
"""They leave out what the client may not see."""
_DOCS = Path(__file__).parents[2] / "docs" / "security.md"


def rows() -> list[str]:
    """The table as docs/security.md has it."""
    found = []
    for api in sorted(_APIS.values(), key=lambda api: api.name):
        rights = [
            f"{right.operation.name} {right.type.name}" + (f" ({right.note})" if right.note else "")
            for right in api.rights.needed
        ]
        found.append(f"| {api.name} | {'; '.join(rights) or 'none'} |")
    return found


def test_the_documentation_has_the_table() -> None:
    text = _DOCS.read_text()
    missing = [row for row in rows() if row not in text]
    assert not missing, "\n".join(["docs/security.md lacks:", *missing])


def test_an_api_without_rights_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="rights"):
        Api(  # type: ignore[call-arg]
            key=1,
            name="Open",
            min_version=0,
            max_version=0,
            flexible=None,
            handle=metadata.handle,
            request=metadata.Request,
            response=metadata.Response,
        )


@pytest.mark.parametrize("key", sorted(_APIS))
def test_the_rights_are_ones_that_entries_can_give(key: int) -> None:
    for right in _APIS[key].rights.needed:
        assert right.operation in SUPPORTED[right.type], right


@pytest.mark.parametrize("key", [key for key, api in _APIS.items() if api.rights.check and api not in _LISTING])
def test_what_is_checked_can_tell_in_every_version_that_the_whole_request_is_refused(key: int) -> None:
    api = _APIS[key]
    for version in range(api.min_version, api.max_version + 1):
        answer = api.failure(with_defaults(api.request), ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "", version)
        assert answer is not None, version
        assert b"".join(api.encode(answer, version))
