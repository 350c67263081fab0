"""What is done to nodes, to Pulsar and to the topics of both while transactions are under way."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tests.faults.processes import let_pass
from tests.support.freezing import frozen
from tests.support.nodes import Nodes
from tests.support.pulsar import PrivatePulsar

SLOTS: Final = 8
"""Of `__bridge_transactions` (transactions.slots)."""
SHORT_SECONDS: Final = 5.0
LONG_SECONDS: Final = 40.0
"""Longer than a slot, and than a place among the nodes, can be held without a word."""


class Faults:
    """One cluster's, by one seed."""

    def __init__(self, broker: PrivatePulsar, nodes: Nodes, topics: Sequence[str], seed: int = 0) -> None:
        """`topics`: those with the data, of four partitions each."""
        self._broker = broker
        self._nodes = nodes
        self._topics = topics
        self._choices = random.Random(seed)
        self.all: Mapping[str, Callable[[], None]] = {
            "kill": self.kill,
            "kill two": self.kill_two,
            "restart": self.restart,
            "freeze": self.freeze,
            "freeze long": self.freeze_long,
            "cut": self.cut,
            "silence": self.silence,
            "unload slots": self.unload_slots,
            "unload data": self.unload_data,
            "compact": self.compact,
            "pulsar": self.kill_pulsar,
            "freeze pulsar": self.freeze_pulsar,
        }
        """By their names."""

    def kill(self) -> None:
        """SIGKILL a node, and start it again while others have its slots."""
        node = self._nodes.any()
        node.kill()
        let_pass(self._choices.uniform(0, 3))
        node.start()

    def kill_two(self) -> None:
        """SIGKILL two at the same time."""
        victims = self._nodes.others(self._nodes.any())
        for node in victims:
            node.kill()
        for node in victims:
            node.start()

    def restart(self) -> None:
        """Stop a node in order, and start it again."""
        node = self._nodes.any()
        node.stop()
        node.start()

    def freeze(self) -> None:
        """SIGSTOP a node for a moment."""
        with self._nodes.any().frozen():
            let_pass(SHORT_SECONDS)

    def freeze_long(self) -> None:
        """SIGSTOP a node until others have its slots."""
        with self._nodes.any().frozen():
            let_pass(LONG_SECONDS)

    def cut(self) -> None:
        """Reset a node's connections to Pulsar or to its clients, for a moment."""
        node = self._nodes.any()
        cut = node.without_pulsar if self._choices.random() < 0.5 else node.without_clients
        with cut(half_open=False):
            let_pass(self._choices.uniform(0, SHORT_SECONDS))

    def silence(self) -> None:
        """Hold back all between a node and Pulsar or its clients."""
        node = self._nodes.any()
        hold = node.without_pulsar if self._choices.random() < 0.5 else node.without_clients
        with hold(half_open=True):
            let_pass(self._choices.uniform(0, 3 * SHORT_SECONDS))

    def unload_slots(self) -> None:
        """Unload what the transactions' records are in."""
        for name in self._slots():
            self._broker.admin("PUT", f"persistent/{name}/unload")
            let_pass(self._choices.uniform(0, 0.5))

    def unload_data(self) -> None:
        """Unload the topics of the data, and the groups' topic."""
        for topic in self._topics:
            self._broker.admin("PUT", f"persistent/{self._nodes.namespace}/{topic}/unload")
        self._broker.admin("PUT", f"persistent/{self._nodes.namespace}-bridge/__bridge_groups/unload")

    def compact(self) -> None:
        """Have all slots compacted, one unloaded while it is under way."""
        names = list(self._slots())
        for name in names:
            self._broker.admin("PUT", f"persistent/{name}/compaction")
        self._broker.admin("PUT", f"persistent/{self._choices.choice(names)}/unload")
        let_pass(1)

    def kill_pulsar(self) -> None:
        """SIGKILL Pulsar, and start it again."""
        self._broker.kill()
        self._broker.start()

    def freeze_pulsar(self) -> None:
        """SIGSTOP Pulsar for a moment."""
        with frozen(self._broker.pid):
            let_pass(self._choices.uniform(1, 2 * SHORT_SECONDS))

    def _slots(self) -> Sequence[str]:
        return [f"{self._nodes.namespace}-bridge/__bridge_transactions-partition-{number}" for number in range(SLOTS)]
