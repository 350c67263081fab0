"""One HTTP GET without an event loop, for commands that do nothing else: asyncio takes longer to import than to ask."""

import http.client
import ssl

_MOST_BYTES = 65_536


def get(host: str, port: int, path: str, seconds: float, tls: ssl.SSLContext | None = None) -> tuple[int, str]:
    """Status and body; OSError where there is no answer."""
    connection = http.client.HTTPConnection(host, port, timeout=seconds)
    if tls is not None:
        connection = http.client.HTTPSConnection(host, port, timeout=seconds, context=tls)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read(_MOST_BYTES).decode("utf-8", "replace")
    except http.client.HTTPException as error:
        raise ConnectionError(str(error)) from error
    finally:
        connection.close()
