"""How many files and sockets this process, and those that it starts, may have open."""

import resource

from bridge.telemetry import log

_log = log.get(__name__)


def allow(wanted: int) -> None:
    """Allow so many, as far as the system lets this process; tell where that is less."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if most < wanted:
        remedy = f"ulimit -n {wanted}, or LimitNOFILE={wanted} in the unit, or lower kafka.max_connections"
        text = "! fewer files may be open than connections are allowed"
        _log.warning(text, extra={"limit": most, "wanted": wanted, "run": remedy})
