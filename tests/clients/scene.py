"""What the group tests share: a topic with records to come, and members that end with the test."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

from tests.clients.endpoint import ABILITIES, Clients, unique
from tests.clients.members import Joining, Member, until, until_read, until_shared
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

    def until_all_held_by(self, member: Member) -> None:
        """Wait for one member to hold every partition."""
        until("one member to hold all", lambda: member.held == set(range(self.partitions)), member)

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


def share(scene: Scene, family: str, **how: Any) -> Member:
    """A second member comes and goes, and each record comes once; the first one, which holds all again."""
    first = scene.join(family, **how)
    scene.write(30)
    until_read([first], scene.values)
    scene.commit([first], family)
    second = scene.join(family, **how)
    pair = [first, second]
    until_shared(pair, scene.partitions)
    scene.write(30)
    until_read(pair, scene.values)
    scene.commit(pair, family)
    second.leave()
    scene.until_all_held_by(first)
    scene.write(30)
    until_read(pair, scene.values)
    return first


def come_back(scene: Scene, family: str, **how: Any) -> None:
    """A static member goes and comes back to what it had, and the other one notices nothing."""
    stays = scene.join(family, instance="stays", **how)
    scene.until_all_held_by(stays)
    goes = scene.join(family, instance="goes", **how)
    until_shared([stays, goes], scene.partitions)
    before, held = list(stays.history), goes.held
    scene.write(9)
    until_read([stays, goes], scene.values)
    scene.commit([stays, goes], family)
    goes.leave()
    back = scene.join(family, instance="goes", **how)
    until_shared([stays, back], scene.partitions)
    assert back.held == held
    scene.write(9)
    until_read([stays, goes, back], scene.values)
    assert stays.history == before
