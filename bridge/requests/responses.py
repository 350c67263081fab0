"""What a handler may return instead of a response, and the error codes that a response has."""

from collections.abc import Awaitable, Callable, Iterator
from functools import cache
from typing import Any, Generic, TypeVar

from bridge.kafka import message
from bridge.requests.encoded import EncodedBody

_R = TypeVar("_R")


class DeferredResponse(Generic[_R]):
    """A response that is ready when `future` is done: the request has its place in the order, the next may start.

    Responses are still written in request order. A result of None means no response; with `make`, the response is what
    that returns for the future's result.
    """

    __slots__ = ("future", "make")

    def __init__(self, future: Awaitable[Any], make: Callable[[Any], _R] | None = None) -> None:
        self.future = future
        self.make = make


class LongPoll(DeferredResponse[_R]):
    """One for which the connection's next request waits, as for a handler that has not returned.

    `future` is cancelled when the client is gone, or has to be answered now without a result.
    """

    __slots__ = ()


class Brief:
    """A response without errors and with few elements, by its class: nothing has to be looked for in it."""

    __slots__ = ()


def error_codes(response: Any) -> Iterator[int]:
    """Every error code in a response, of the whole request and of its topics and partitions."""
    if isinstance(response, EncodedBody):
        return
    cls: type = type(response)
    tells, arrays = _errors_of(cls)
    if tells and response.error_code:
        yield response.error_code
    for name in arrays:
        for element in getattr(response, name) or ():
            yield from error_codes(element)


@cache
def _errors_of(cls: type) -> tuple[bool, tuple[str, ...]]:
    """Whether a message class has an error code, and which of its arrays have elements that have."""
    fields = message.fields_of(cls)
    arrays = []
    for one in fields:
        element = one.type.element
        if one.type.name == "array" and element is not None and element.message is not None:
            tells, below = _errors_of(element.message)
            if tells or below:
                arrays.append(one.name)
    return any(one.name == "error_code" for one in fields), tuple(arrays)
