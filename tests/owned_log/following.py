"""A follower, and what it has told."""

from dataclasses import dataclass, field

from bridge.owned_log import Follower, Record
from bridge.pulsar import Admin, PulsarClient
from bridge.telemetry.metrics import GroupMetrics


@dataclass
class Copied:
    """A `Copy` that keeps values."""

    values: dict[str, bytes] = field(default_factory=dict)

    def apply(self, key: str, value: bytes | None) -> None:
        if value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = value


class Following:
    """A follower, and what it has told."""

    def __init__(self, topic: str, client: PulsarClient, admin: Admin) -> None:
        self.copies: list[Copied] = []
        self.applied: list[Record] = []
        self.metrics = GroupMetrics()
        self.follower = Follower(
            0, topic, client, admin, self.metrics, Copied, self.copies.append, self.applied.extend
        )  # fmt: skip
        self.follower.start()

    @property
    def values(self) -> dict[str, bytes]:
        return self.copies[-1].values

    async def confirmed(self) -> dict[str, bytes]:
        await self.follower.confirm()
        return self.values
