"""A future that calls at once when it is done, where the event loop's next iteration would be too late."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

_R = TypeVar("_R")


class Outcome(asyncio.Future[_R]):
    """A future that can call at once when it is done: in the midst of what makes it done, which is to have nothing left
    to do then. The event loop's next iteration, for which callbacks of other futures wait, costs as much as they do."""

    _calls: "Sequence[Callable[[Outcome[_R]], object]]" = ()  # of the class: a constructor would take most of the time

    def call_at_once(self, call: "Callable[[Outcome[_R]], object]") -> None:
        """Call it when this is done, now if it is, before the callbacks of `add_done_callback`."""
        if self.done():
            self._call(call)
        else:
            self._calls = (*self._calls, call)

    def set_result(self, result: _R, /) -> None:
        """As any future's, and call."""
        super().set_result(result)
        if self._calls:
            self._call_all()

    def set_exception(self, exception: type | BaseException, /) -> None:
        """As any future's, and call."""
        super().set_exception(exception)
        self._call_all()

    def cancel(self, msg: Any = None) -> bool:
        """As any future's, and call."""
        cancelled = super().cancel(msg)
        if cancelled:
            self._call_all()
        return cancelled

    def _call_all(self) -> None:
        calls, self._calls = self._calls, ()
        for call in calls:
            self._call(call)

    def _call(self, call: "Callable[[Outcome[_R]], object]") -> None:
        try:
            call(self)
        except Exception as error:  # noqa: BLE001 - who has made it done is not to blame
            message = "a call at a future's outcome failed"
            self.get_loop().call_exception_handler({"message": message, "exception": error, "future": self})


def call_when_done(future: "asyncio.Future[_R]", call: "Callable[[asyncio.Future[_R]], object]") -> None:
    """Call at once if the future can do that, else in the event loop's next iteration after it is done."""
    if isinstance(future, Outcome):
        future.call_at_once(call)
    else:
        future.add_done_callback(call)
