"""`bridge ready`: asks the node on this machine whether clients are served, as a container's health check does."""

import http.client
import json
import ssl
from typing import Final, TextIO

from bridge.config import Address, HttpSettings

ASK_SECONDS: Final = 5.0
_MOST_BYTES: Final = 65_536
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
    host = _HERE.get(host, host)
    connection = http.client.HTTPConnection(host, port, timeout=seconds)
    if settings.has_tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(host, port, timeout=seconds, context=context)
    try:
        connection.request("GET", "/readyz")
        response = connection.getresponse()
        body = response.read(_MOST_BYTES).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        return f"{settings.url}: {error}"
    finally:
        connection.close()
    return None if response.status == 200 else _problem(body)


def _problem(body: str) -> str:
    try:
        checks = json.loads(body)["checks"]
        return "; ".join(f"{name}: {reason}" for name, reason in checks.items() if reason != "ok")
    except (ValueError, KeyError, AttributeError, TypeError):
        return body
