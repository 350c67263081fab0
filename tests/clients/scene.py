"""What the group tests share: a topic with records to come, and members that end with the test."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

from tests.clients.endpoint import ABILITIES, Clients, unique
from tests.clients.members import Joining, Member
from tests.clients.model import Draft

PARTITIONS = 3


class Scene:
    """A topic, a group, and who joined."""

    def __init__(self, clients: Clients, partitions: int = PARTITIONS) -> None:
        self._clients = clients
        self._numbers = count()
        self.partitions = partitions
        self.topic = unique("grouped")
        self.group = unique("group")
        self.values: list[str] = []
        self.ends = dict.fromkeys(range(partitions), 0)
        self.members: list[Member] = []
        clients["confluent"].create_topic(self.topic, partitions)

    def write(self, number: int) -> list[str]:
        """Write so many records more, round the partitions; returns their values."""
        drafts = []
        for position in (next(self._numbers) for _ in range(number)):
            where = position % self.partitions
            drafts.append(Draft("", f"record-{position}".encode(), b"key", partition=where))
            self.ends[where] += 1
        self._clients["confluent"].write(self.topic, drafts)
        values = [(draft.value or b"").decode() for draft in drafts]
        self.values += values
        return values

    def join(self, family: str, **how: Any) -> Member:
        """Let a client join; it leaves with the test."""
        member = self._clients.groups(family).join(Joining(self.group, self.topic, **how))
        self.members.append(member)
        return member

    def commit(self, members: Sequence[Member], family: str) -> None:
        """Commit where the client can be asked; the others do it when they lose partitions or leave."""
        if family in ABILITIES["commit"]:
            for member in members:
                member.commit()

    def close(self) -> None:
        """Let all leave that are still there."""
        for member in self.members:
            if not member.ended:
                member.leave()
