"""An issuer of tokens for OAuth2's client credentials, on this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs


@contextmanager
def issuer(token: Callable[[], str], seconds: float = 3600) -> Iterator[str]:
    """Its URL; the secret that it asks for is `words`. `seconds`: how long it says that a token lasts."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({"issuer": url, "token_endpoint": f"{url}/oauth/token"})

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            assert form["client_secret"] == ["words"]
            self._answer({"access_token": token(), "token_type": "Bearer", "expires_in": seconds})

        def _answer(self, body: object) -> None:
            data = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Nothing is told."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    url = f"http://127.0.0.1:{server.server_port}"
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield url
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
