"""Pulsar as a child process, as far as it can be judged without starting one."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

from bridge.standalone.process import has_registration_conflict, standalone_problem

LOST = "INFO  ResourceLockImpl - Lock on resource /ledgers/available/127.0.0.1:34525 was invalidated. state Valid"
TAKEN = "INFO  ResourceLockImpl - Successfully re-acquired lock at /ledgers/available/127.0.0.1:34525"
OTHER = "INFO  ResourceLockImpl - Lock on resource /namespace/pulsar/127.0.0.1:48653 was invalidated. state Valid"


def test_a_bookie_that_never_keeps_its_registration_is_noticed() -> None:
    assert has_registration_conflict("\n".join([LOST, TAKEN] * 20))


def test_a_registration_that_is_lost_once_is_none_of_our_business() -> None:
    assert not has_registration_conflict("\n".join([LOST, TAKEN, *[OTHER] * 20]))
    assert not has_registration_conflict("")


@contextmanager
def admin_api(answers: dict[str, tuple[int, bytes]]) -> Iterator[int]:
    """A server that answers these paths; its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answers[self.path]
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def test_a_healthy_broker_without_its_first_namespace_is_not_started_yet() -> None:
    health, namespace = "/admin/v2/brokers/health", "/admin/v2/namespaces/public/default"
    answers = {health: (500, b"not yet"), namespace: (200, b"{}")}
    with admin_api(answers) as port:
        assert standalone_problem(port) == "its health check answers 500: not yet"
        answers.update({health: (200, b"ok"), namespace: (404, b"no such tenant")})
        assert standalone_problem(port) == "namespace public/default is not there yet: 404: no such tenant"
        answers[namespace] = (200, b"{}")
        assert standalone_problem(port) is None
