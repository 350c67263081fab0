"""MirrorMaker 2, unmodified, as docs/cut-over.md sets it up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from bridge.node.orphans import Guard
from bridge.pipeline.endpoint import KafkaEndpoint
from bridge.pipeline.options import EndpointOptions
from bridge.pipeline.ranges import Partition
from bridge.standalone.child import Child
from tests.support.examples import blocks, replaced
from tests.support.java import MIRROR, java_command, run_tool
from tests.support.sources import ROOT

_STOP_SECONDS = 60.0
PAGE = ROOT / "docs" / "cut-over.md"


class Mirror:
    """One MirrorMaker 2, from one cluster to the other; the page's names stand for their addresses."""

    def __init__(
        self, work: Path, guard: Guard, way: tuple[str, str], addresses: Mapping[str, str], topic: str
    ) -> None:
        """`way`: from which cluster to which, by their names in the page's files; `addresses` has those of both."""
        work.mkdir()
        self.here, self.there = way
        self._addresses = addresses
        true = {f"{name}.example:9092": address for name, address in addresses.items()}
        self._properties = work / "mm2.properties"
        self._properties.write_text(replaced(blocks(PAGE)["-to-".join(way)], {**true, "orders": topic}))
        self._child = Child("MirrorMaker", guard, work / "log")

    def start(self) -> None:
        """Start it, and wait for nothing."""
        command = java_command(
            "org.apache.kafka.connect.mirror.MirrorMaker", str(self._properties),
            heap="512m", jars=MIRROR, log_level="info",
        )  # fmt: skip
        self._child.start(command)

    def stop(self) -> None:
        """Stop it, in order."""
        assert self._child.stop(_STOP_SECONDS), self.said()

    def kill(self) -> None:
        """SIGKILL."""
        self._child.kill()

    def said(self) -> str:
        """The end of its log."""
        return self._child.last_lines(60)

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return self._child.running

    def begin_at(self, ends: Mapping[Partition, int]) -> None:
        """Let it begin at these offsets of the source: what is before them has come from the target."""
        topic = f"mm2-offsets.{self.here}.internal"
        there = self._addresses[self.there]
        run_tool(
            "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", there, "--create", "--topic", topic,
            "--partitions", "1", "--replication-factor", "1", "--config", "cleanup.policy=compact",
        )  # fmt: skip
        lines = []
        for key, end in ends.items():
            place = {"cluster": self.here, "partition": key.number, "topic": key.topic}
            words = json.dumps(["MirrorSourceConnector", place], separators=(",", ":"))
            lines.append(f"{words}\t{json.dumps({'offset': end - 1})}\n")
        run_tool(
            "org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server", there, "--topic", topic,
            "--property", "parse.key=true", stdin="".join(lines).encode(),
        )  # fmt: skip


def ends(bootstrap: str, topic: str, partitions: int) -> dict[Partition, int]:
    """Where the partitions of a topic end; nothing of one that is not there."""
    with KafkaEndpoint(EndpointOptions(bootstrap)) as endpoint:
        if topic not in endpoint.topics():
            return {}
        return endpoint.ends([Partition(topic, number) for number in range(partitions)])


def committed(bootstrap: str, group: str) -> dict[Partition, int]:
    """What a group has committed."""
    with KafkaEndpoint(EndpointOptions(bootstrap)) as endpoint:
        return {key: each.offset for key, each in endpoint.committed(group).items()}
