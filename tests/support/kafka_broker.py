"""A real Apache Kafka of one node, the control against which every client scenario is proved."""

from __future__ import annotations

import base64
import socket
import subprocess
import threading
import uuid
from collections import deque
from pathlib import Path

from tests.support.java import java_command, run_tool

START_TIMEOUT = 60.0
STOP_TIMEOUT = 30.0


def free_ports(count: int) -> list[int]:
    """Return ports that are free now, all different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


class KafkaBroker:
    """One Kafka process (KRaft, broker and controller in one) with its data in a directory of the caller."""

    def __init__(self, directory: Path, *, advertised: str = "") -> None:
        self._directory = directory
        self._advertised = advertised
        self._started = threading.Event()
        self._tail: deque[str] = deque(maxlen=40)
        self.kafka = ""

    def start(self) -> None:
        """Format the storage, start the broker and return when it says that it serves."""
        port, controller = free_ports(2)
        self.kafka = f"127.0.0.1:{port}"
        config = self._directory / "server.properties"
        config.write_text(self._properties(controller), encoding="utf-8")
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        run_tool("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(config))
        command = java_command("-Dorg.slf4j.simpleLogger.defaultLogLevel=info", "kafka.Kafka", str(config), heap="768m")
        # C2 pays off in a server that a million records go through
        command.remove("-XX:TieredStopAtLevel=1")
        command.remove("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self._reader = threading.Thread(target=self._read_log, name="kafka-log", daemon=True)
        self._reader.start()
        if not self._started.wait(START_TIMEOUT) or self._process.poll() is not None:
            self.stop()
            raise AssertionError("Kafka did not start:\n" + "".join(self._tail))

    def stop(self) -> None:
        """Stop the process that was started here, by its id."""
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(STOP_TIMEOUT)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read_log(self) -> None:
        assert self._process.stdout is not None
        for raw in self._process.stdout:
            line = raw.decode(errors="replace")
            self._tail.append(line)
            if "Kafka Server started" in line:
                self._started.set()
        self._started.set()  # the process ended: whoever waits looks at its exit code

    def _properties(self, controller: int) -> str:
        lines = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://{self.kafka},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self._advertised or self.kafka}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self._directory / "data"),
            "auto.create.topics.enable": "true",
            "num.partitions": "1",
            # records of the tests carry times long past, which Kafka would delete after half a minute
            "log.retention.ms": "-1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            # as long as the bridge's own default
            "group.initial.rebalance.delay.ms": "100",
            "share.coordinator.state.topic.replication.factor": "1",
        }
        return "".join(f"{name}={value}\n" for name, value in lines.items())
