"""Ask a local HTTP server something and wait until it answers as it should."""

import time
from collections.abc import Callable

from bridge.errors import StartupError
from bridge.net import blocking_http
from bridge.standalone.child import Child

_EVERY_SECONDS = 0.2


def get(port: int, path: str, seconds: float = 5.0) -> tuple[int, str]:
    """Status and body of a GET on 127.0.0.1; status 0 when there is no answer."""
    try:
        return blocking_http.get("127.0.0.1", port, path, seconds)
    except OSError as error:
        return 0, str(error)


def wait_until_ready(
    child: Child, ask: Callable[[], str | None], seconds: float, tell: Callable[[float], None] | None = None
) -> float:
    """Ask until the answer is None (ready), the child is dead or the time is up; how long it took."""
    start = time.monotonic()
    while True:
        problem = ask()
        waited = time.monotonic() - start
        if problem is None and child.running:
            return waited
        if not child.running:
            raise StartupError(f"{child.name} {child.exit_description()} while starting")
        if waited > seconds:
            slow = "if this machine is busy, start it again when it is less so"
            raise StartupError(f"{child.name} is not ready after {seconds:.0f} s: {problem}; {slow}")
        if tell is not None:
            tell(waited)
        time.sleep(_EVERY_SECONDS)
