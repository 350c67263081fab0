"""Three bridges behind one address: child processes, and a balancer before them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bridge.node.orphans import Guard
from bridge.standalone.ports import HOST
from tests.support.balancer import Balancer
from tests.support.bridges import Overrides, settings_for
from tests.support.nodes import Node, is_shared, stable_ports, wait_for_view
from tests.support.pulsar import PulsarAddress


class OneAddress:
    """Nodes with `cluster.addressing = "single"`."""

    def __init__(
        self,
        pulsar: PulsarAddress,
        namespace: str,
        guard: Guard,
        directory: Path,
        count: int = 3,
        *,
        overrides: Overrides | None = None,
        seed: int = 0,
    ) -> None:
        self.balancer = Balancer(seed=seed)
        self.nodes: list[Node] = []
        self.direct: list[str] = []
        """Each node's own port, which clients are not told of."""
        self.internal: list[str] = []
        ports = stable_ports(3 * count)
        for number in range(count):
            kafka, internal, http = ports[3 * number : 3 * number + 3]
            settings = settings_for(pulsar, namespace, overrides).with_values(
                http={"listen": f"{HOST}:{http}"},
                cluster={
                    "name": f"node-{number}", "addressing": "single", "internal_listen": f"{HOST}:{internal}",
                },
                kafka={"listen": f"{HOST}:{kafka}", "advertised": self.balancer.address},
            )  # fmt: skip
            self.nodes.append(Node(f"node-{number}", settings, directory / f"node-{number}", guard, None))
            self.direct.append(f"{HOST}:{kafka}")
            self.internal.append(f"{HOST}:{internal}")
        self.balancer.targets = ports[::3]

    @property
    def kafka(self) -> str:
        """What clients are given."""
        return self.balancer.address

    def start(self) -> None:
        """Start all, and wait until each is ready and all know who has which groups."""
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(Node.start, self.nodes))
        wait_for_view(self.nodes, lambda held: is_shared(groups for _, groups in held))

    def close(self) -> None:
        """Kill all."""
        for node in self.nodes:
            node.kill()
        self.balancer.close()
