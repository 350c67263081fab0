"""The topics in a consumer's metadata."""

import pytest

from bridge.groups.classic.subscription import topics
from bridge.kafka.consumer_protocol import Subscription
from bridge.kafka.message import encode


@pytest.mark.parametrize("version", range(4))
def test_the_topics_are_read_in_every_version(version: int) -> None:
    data = version.to_bytes(2, "big") + bytes(encode(Subscription(topics=["a", "b"]), version, flexible=False))
    assert topics(data) == frozenset(("a", "b"))
    assert topics(data[:-1]) is None


def test_anything_else_is_not_known() -> None:
    assert topics(b"") is None
