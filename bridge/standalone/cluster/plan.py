"""Where a Pulsar cluster lives and where its processes listen."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from bridge.standalone.ports import HOST, any_free


@dataclass(frozen=True, slots=True)
class BrokerPorts:
    """The ports of one broker."""

    binary: int
    http: int


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """Where it lives and where its processes listen."""

    data_dir: Path
    zookeeper: int
    bookies: Sequence[int]
    brokers: Sequence[BrokerPorts]
    settings: Mapping[str, object] = field(default_factory=dict)
    """Over the brokers' configuration."""

    @classmethod
    def on_free_ports(
        cls,
        data_dir: Path,
        brokers: int,
        *,
        bookies: int = 3,
        settings: Mapping[str, object] | None = None,
        taken: Collection[int] = (),
        first: BrokerPorts | None = None,
    ) -> Self:
        """Choose every port that is not given: `first` is the first broker's."""
        used = set(taken)

        def free() -> int:
            used.add(port := any_free(used))
            return port

        zookeeper, stores = free(), [free() for _ in range(bookies)]
        given = [] if first is None else [first]
        places = given + [BrokerPorts(free(), free()) for _ in range(brokers - len(given))]
        return cls(data_dir, zookeeper, stores, places, settings or {})

    @property
    def service_url(self) -> str:
        """For Pulsar's binary protocol: every broker."""
        return "pulsar://" + ",".join(f"{HOST}:{broker.binary}" for broker in self.brokers)

    @property
    def admin_url(self) -> str:
        """For Pulsar's REST API: every broker."""
        return "http://" + ",".join(f"{HOST}:{broker.http}" for broker in self.brokers)
