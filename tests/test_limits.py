"""The documented limits are those of the code."""

from bridge import apis
from bridge.requests.api import MAX_CONTROL_BYTES
from tests.support.limits import BEGIN, END, PAGE, default, table
from tests.support.pages import between


def test_the_table_is_the_codes() -> None:
    assert between(PAGE, BEGIN, END) == table(), "write it again: python -m tests.support.limits"


def test_every_setting_named_is_one() -> None:
    named = [one.maximum for api in apis.load().values() for one in api.limits if isinstance(one.maximum, str)]
    assert named
    assert all(default(name) for name in named)


def test_every_api_but_produce_has_requests_of_bounded_size() -> None:
    unbounded = [api.name for api in apis.load().values() if api.max_request_bytes > MAX_CONTROL_BYTES]
    assert unbounded == ["Produce"]
