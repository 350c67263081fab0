"""A real Pulsar cluster as child processes: a ZooKeeper, bookies and brokers, each with a pid to kill, stop and resume.

Everything runs on this machine, from the jars that the standalone uses. It is for trying what a standalone cannot show:
a broker that dies, topics that move, a look-up that redirects.
"""

import socket
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from bridge.errors import StartupError
from bridge.standalone.cluster import programs as programs
from bridge.standalone.cluster.plan import ClusterPlan
from bridge.standalone.jvm import HEALTHY_WITHIN_SECONDS, Java, JvmProcess, Tell
from bridge.standalone.ports import HOST
from bridge.standalone.process import broker_problem

_SET_UP = "is-set-up"
_ASK_SECONDS = 2.0


class PulsarCluster:
    """Start and stop it whole, or one process of it: `zookeeper`, `bookies`, `brokers`."""

    def __init__(self, plan: ClusterPlan, java: Java) -> None:
        self.plan = plan
        self._java = java
        self.zookeeper = JvmProcess(programs.zookeeper(plan), java, partial(_zookeeper_problem, plan.zookeeper))
        self.bookies = [
            JvmProcess(programs.bookie(plan, number), java, partial(_bookie_problem, port))
            for number, port in enumerate(plan.bookies, 1)
        ]
        self.brokers = [
            JvmProcess(programs.broker(plan, number), java, partial(broker_problem, ports.http))
            for number, ports in enumerate(plan.brokers, 1)
        ]

    @property
    def members(self) -> list[JvmProcess]:
        """Every process, those first that others need."""
        return [self.zookeeper, *self.bookies, *self.brokers]

    def start(self, tell: Tell | None = None, seconds: float = HEALTHY_WITHIN_SECONDS) -> float:
        """Start everything and wait until each process is healthy; how long that took. On failure nothing is left."""
        began = time.monotonic()
        try:
            self.zookeeper.start(tell, seconds)
            self._set_up(seconds)
            for one in (*self.bookies, *self.brokers):
                one.launch()
            for one in (*self.bookies, *self.brokers):
                one.wait_until_healthy(tell, seconds)
        except BaseException:
            self.kill()
            raise
        return time.monotonic() - began

    def stop(self) -> None:
        """Let the brokers close their ledgers, then the bookies theirs."""
        for row in (self.brokers, self.bookies, [self.zookeeper]):
            with ThreadPoolExecutor(max(len(row), 1)) as together:
                list(together.map(JvmProcess.stop, row))

    def kill(self) -> None:
        """KILL everything."""
        for one in self.members:
            one.child.kill_nowait()
        for one in self.members:
            one.kill()

    def _set_up(self, seconds: float) -> None:
        """Write a new cluster's first metadata, once."""
        marker = self.plan.data_dir / _SET_UP
        if marker.exists():
            return
        setup = JvmProcess(programs.metadata_setup(self.plan), self._java, lambda: None)
        setup.launch()
        if not setup.child.wait(seconds) or setup.child.exit_description() != "exited with 0":
            how = setup.child.exit_description()
            setup.kill()
            raise StartupError(f"the metadata of a new Pulsar cluster cannot be written: {how}\n{setup.last_lines()}")
        setup.kill()  # has ended: the guard forgets it
        marker.touch()


def pids(members: Iterable[JvmProcess]) -> dict[str, int]:
    """The process id of each."""
    return {one.name: one.pid for one in members}


def _zookeeper_problem(port: int) -> str | None:
    try:
        with socket.create_connection((HOST, port), _ASK_SECONDS) as connection:
            connection.sendall(b"srvr")
            return None if connection.recv(4096).startswith(b"Zookeeper version") else "it does not answer srvr"
    except OSError as error:
        return str(error)


def _bookie_problem(port: int) -> str | None:
    try:
        socket.create_connection((HOST, port), _ASK_SECONDS).close()
    except OSError as error:
        return str(error)
    return None
