"""Answers that are the same for several clients."""

from bridge.apis import fetch
from bridge.requests.encoded import EncodedBody, SharedResponses
from bridge.requests.responses import error_codes


def test_who_asks_the_same_gets_the_same_bytes() -> None:
    answers = SharedResponses()
    made = answers.put(("t", 0, 5), 3, [b"head", memoryview(b"abc"), b"tail"])
    assert made.body == (b"headabctail",)
    assert answers.get(("t", 0, 5), 1) is made
    assert answers.get(("t", 0, 6), 1) is None


def test_who_wants_more_waits_on() -> None:
    answers = SharedResponses()
    answers.put("key", 100, [b"x" * 100])
    assert answers.get("key", 100) is not None
    assert answers.get("key", 101) is None


def test_few_and_small_ones_are_kept() -> None:
    answers = SharedResponses()
    for number in range(100):
        answers.put(number, 1, [b"x"])
    assert [number for number in range(100) if answers.get(number, 1) is not None] == list(range(36, 100))
    large = answers.put("large", 1, [bytes(64 * 1024 + 1)])
    assert len(large.body[0]) == 64 * 1024 + 1
    assert answers.get("large", 1) is None


def test_it_is_written_as_it_is_and_tells_no_error() -> None:
    answer = EncodedBody([b"a", b"b"])
    assert b"".join(fetch.API.encode(answer, 11)) == b"ab"
    assert list(error_codes(answer)) == []
