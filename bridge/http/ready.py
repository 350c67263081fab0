"""`bridge ready`: asks the node on this machine whether clients are served, as a container's health check does."""

import json
import ssl
from typing import Final, TextIO

from bridge.config import Address, HttpSettings
from bridge.net.blocking_http import get

ASK_SECONDS: Final = 5.0
_HERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where to connect for it


def show(settings: HttpSettings, out: TextIO, *, as_json: bool = False) -> int:
    """Print what does not hold; the exit code: 0 where the node is ready, else 1."""
    problem = ask(settings)
    if as_json:
        print(json.dumps({"ready": problem is None, "problem": problem}), file=out)
    else:
        print("ready" if problem is None else f"not ready: {problem}", file=out)
    return 0 if problem is None else 1


def ask(settings: HttpSettings, seconds: float = ASK_SECONDS) -> str | None:
    """What /readyz says; None where the node is ready.

    No secret is sent, as to a probe of Kubernetes, so the certificate need not name this machine.
    """
    host, port = Address.parse(settings.listen)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if settings.has_tls else None
    if tls is not None:
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    try:
        status, body = get(_HERE.get(host, host), port, "/readyz", seconds, tls)
    except OSError as error:
        return f"{settings.url}: {error.strerror or error}; is the bridge running, with this http.listen?"
    return None if status == 200 else _problem(body)


def _problem(body: str) -> str:
    try:
        checks = json.loads(body)["checks"]
        return "; ".join(f"{name}: {reason}" for name, reason in checks.items() if reason != "ok")
    except (ValueError, KeyError, AttributeError, TypeError):
        return body
