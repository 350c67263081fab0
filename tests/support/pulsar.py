"""Real Pulsars for the tests: the session's shared one, and private ones that may be killed."""

import http.client
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bridge.node.orphans import Guard
from bridge.standalone.jvm import QUICK_START
from bridge.standalone.ports import any_free
from bridge.standalone.process import PulsarPlan, PulsarProcess
from bridge.standalone.tools import find_java
from tests.support import class_archives, pulsar_versions


@dataclass
class PulsarAddress:
    """Where a Pulsar is reached."""

    service_url: str
    admin_url: str

    def create_namespace(self, *, retention: bool = True) -> str:
        """A fresh `public/t-…`; with unlimited retention unless the test is about its absence."""
        namespace = f"public/t-{secrets.token_hex(4)}"
        self.admin("PUT", f"namespaces/{namespace}")
        if retention:
            unlimited = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
            self.admin("POST", f"namespaces/{namespace}/retention", unlimited)
        return namespace

    def admin(self, method: str, path: str, body: object = None) -> object:
        """Ask the admin API; AssertionError when it refuses."""
        address = urlsplit(self.admin_url)
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, f"/admin/v2/{path}", data, {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read().decode()
        finally:
            connection.close()
        assert response.status < 300, f"{method} {path}: {response.status} {text}"
        return json.loads(text) if text else None


class PrivatePulsar(PulsarAddress):
    """A Pulsar of one test: kill it, start it again on the same data and ports."""

    def __init__(self, process: PulsarProcess) -> None:
        super().__init__(process.plan.service_url, process.plan.admin_url)
        self.process = process

    @property
    def pid(self) -> int:
        """The JVM's process id."""
        return self.process.pid

    @property
    def is_running(self) -> bool:
        """Whether it was started, and has not ended since."""
        return self.process.child.running

    def start(self) -> None:
        """Start it and wait until it is healthy."""
        self.process.start()

    def stop(self) -> None:
        """Stop it in order."""
        self.process.stop()

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()


NewPulsar = Callable[..., PrivatePulsar]


def make_pulsar(
    directory: Path,
    guard: Guard,
    settings: Mapping[str, str] | None = None,
    of_port: Callable[[int], Mapping[str, str]] | None = None,
) -> PrivatePulsar:
    """One on free ports, not yet started; `settings`, and those that its port decides, go over ours."""
    jars = pulsar_versions.chosen_jars()
    port = any_free()
    wanted = {**pulsar_versions.chosen_settings(), **(settings or {}), **(of_port(port) if of_port else {})}
    java = find_java()
    started_with = (*QUICK_START, *class_archives.options(java, jars))
    # half of what a user's gets: several run beside each other in a test session, most of them not for long
    plan = PulsarPlan(directory, port, any_free({port}), 512, 512, wanted, started_with)
    return PrivatePulsar(PulsarProcess(plan, java, jars, guard))
