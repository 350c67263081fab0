"""A real Pulsar cluster for the tests: brokers, bookies and a metadata store, each a process with a pid of its own."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from bridge.node.orphans import Guard
from bridge.standalone.cluster.cluster import PulsarCluster
from bridge.standalone.cluster.plan import ClusterPlan
from bridge.standalone.jars import ensure_pulsar_jars
from bridge.standalone.jvm import QUICK_START, Java, JvmProcess
from bridge.standalone.ports import HOST
from bridge.standalone.tools import find_java
from tests.support import class_archives
from tests.support.pulsar import PulsarAddress

_SECONDS = 30.0
_MAX_REDIRECTS = 5
STILL = {
    # what moves is moved by the test
    "loadBalancerSheddingEnabled": "false",
    "loadBalancerAutoBundleSplitEnabled": "false",
}
EXTENSIBLE = {
    "loadManagerClassName": "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl",
}
"""The load manager that tells clients the new broker of what it moves, and can be told where to."""


class RealCluster(PulsarAddress):
    """Start it, kill brokers and bookies of it, ask through whichever broker runs."""

    def __init__(self, cluster: PulsarCluster) -> None:
        super().__init__(cluster.plan.service_url, cluster.plan.admin_url)
        self.cluster = cluster
        self.brokers = cluster.brokers
        self.bookies = cluster.bookies

    def start(self) -> None:
        """Start all of it and wait until it is healthy."""
        self.cluster.start()

    def kill(self) -> None:
        """SIGKILL to all of it."""
        self.cluster.kill()

    def heal(self) -> None:
        """Start what was killed and not started again."""
        for one in self.cluster.members:
            if not one.child.running:
                one.start()

    def admin(self, method: str, path: str, body: object = None) -> object:
        """Ask the admin API of a broker that runs, and follow it to the owner; AssertionError when that refuses."""
        status, text = _ask(method, f"{self.http_of(self._running())}/admin/v2/{path}", body)
        assert status < 300, f"{method} {path}: {status} {text}"
        return json.loads(text) if text else None

    def http_of(self, broker: JvmProcess) -> str:
        """One broker's address for the admin API."""
        return f"http://{self.id_of(broker)}"

    def id_of(self, broker: JvmProcess) -> str:
        """What Pulsar calls a broker."""
        return f"{HOST}:{self.cluster.plan.brokers[self.brokers.index(broker)].http}"

    def url_of(self, broker: JvmProcess) -> str:
        """One broker's address for the binary protocol."""
        return f"pulsar://{HOST}:{self.cluster.plan.brokers[self.brokers.index(broker)].binary}"

    def owner(self, topic: str, ask: JvmProcess | None = None) -> JvmProcess | None:
        """The broker that has the topic (`tenant/namespace/name`), which a look-up gives to one; None: not just now."""
        asked = ask or self._running()
        try:
            status, text = _ask("GET", f"{self.http_of(asked)}/lookup/v2/topic/persistent/{topic}", None, 2.0)
        except OSError:
            return None
        if status != 200:
            return None
        url = cast("dict[str, str]", json.loads(text))["brokerUrl"]
        return next(broker for broker in self.brokers if self.url_of(broker) == url)

    def bundle_of(self, topic: str) -> str:
        """The part of its namespace that a topic is in; one broker has all of it."""
        status, text = _ask("GET", f"{self.http_of(self._running())}/lookup/v2/topic/persistent/{topic}/bundle", None)
        assert status == 200, f"{topic}: {status} {text}"
        return text

    def _running(self) -> JvmProcess:
        return next(broker for broker in self.brokers if broker.child.running)


def make_cluster(directory: Path, guard: Guard, brokers: int, settings: Mapping[str, str] | None = None) -> RealCluster:
    """One on free ports, not yet started; `settings` go over the brokers' configuration."""
    executable, jars = find_java(), ensure_pulsar_jars(print)
    java = Java(executable, jars, guard, (*QUICK_START, *class_archives.options(executable, jars)))
    plan = ClusterPlan.on_free_ports(directory, brokers, settings={**STILL, **(settings or {})})
    return RealCluster(PulsarCluster(plan, java))


def _ask(method: str, url: str, body: object, seconds: float = _SECONDS) -> tuple[int, str]:
    for _ in range(_MAX_REDIRECTS):
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=seconds)
        try:
            data = None if body is None else json.dumps(body)
            target = parts.path + (f"?{parts.query}" if parts.query else "")
            connection.request(method, target, data, {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read().decode()
        finally:
            connection.close()
        if response.status != http.client.TEMPORARY_REDIRECT:
            return response.status, text
        url = response.headers["Location"]
    raise AssertionError(f"{method} {url}: redirected again and again")
