"""The cells of a server: every request in the name of every principal; and how they are kept in a file."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bridge.apis import consumer_group_heartbeat, metadata
from bridge.kafka.error_codes import ErrorCode
from tests.authorization.asked import (
    of_groups,
    of_principals,
    of_records,
    of_shares,
    of_streams,
    of_the_cluster,
    of_topics,
    of_transactions,
)
from tests.authorization.asked.row import Row
from tests.authorization.login import LoggedIn
from tests.authorization.rights import RIGHTS, SUPER, WITHOUT_ENTRIES, Right
from tests.authorization.world import TOPICS, World, may_see
from tests.clients.model import attempts
from tests.clients.refusals import consumer_groups

TABLES = (of_records, of_topics, of_groups, of_shares, of_streams, of_transactions, of_the_cluster, of_principals)
ROWS: list[Row] = [each for table in TABLES for row in table.ROWS for each in row.in_all_versions()]
FILE = Path(__file__).with_name("kafka.json")
MODES: dict[str, Sequence[Right]] = {"usual": RIGHTS, "permissive": WITHOUT_ENTRIES}
"""Who asks; `permissive`: allow_everyone_if_no_acl_found."""


class Matrix:
    """A server, what the requests are about, and a client of each principal."""

    def __init__(self, world: World, rights: Sequence[Right], clients: Mapping[str, LoggedIn]) -> None:
        self._world = world
        self._rights = rights
        self._clients = clients

    def told(self, row: Row, names: Sequence[str] | None = None) -> dict[str, str]:
        """What each principal is told, or some of them."""
        wanted = row.asked_by(self._rights) if names is None else names
        return {name: row.told(self._clients[name], self._world) for name in wanted}

    def listed(self, name: str) -> set[str]:
        """The topics that a principal is told of when it asks for all."""
        topics = self._clients[name].ask(metadata.API, metadata.Request(topics=None)).topics
        return {one.name for one in topics}.intersection(TOPICS)

    def fitting(self, name: str, pattern: str, wanted: set[str]) -> set[str] | None:
        """The topics that a member with this pattern is given, at last: Kafka matches it after it has answered.

        None where the principal may be no member.
        """
        client, group = self._clients[name], self._world.new("mine-seen")
        ids = {self._world.ids[topic]: topic for topic in TOPICS}
        fields: dict[str, Any] = {"subscribed_topic_names": None, "subscribed_topic_regex": pattern}
        epoch, given = 0, set[str]()
        for _ in attempts(f"what {name} sees by {pattern}"):
            request = consumer_groups.beat(group, "m", epoch, **({} if epoch else fields))
            answer = client.ask(consumer_group_heartbeat.API, request)
            if answer.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
                return None
            assert answer.error_code in (0, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR), answer
            epoch = answer.member_epoch
            if answer.assignment is not None:
                given = {ids[one.topic_id] for one in answer.assignment.topic_partitions if one.topic_id in ids}
            if given == wanted:
                break
        client.ask(consumer_group_heartbeat.API, consumer_groups.beat(group, "m", -1))
        return given


@contextmanager
def matrix_of(address: str, rights: Sequence[Right]) -> Iterator[Matrix]:
    """Set up what the requests are about and the entries of all principals, and log all of them in."""
    with ExitStack() as opened:

        def log_in(name: str, source: str = "127.0.0.1") -> LoggedIn:
            client = LoggedIn(address, name, source)
            opened.callback(client.close)
            return client

        world = World(log_in(SUPER))
        world.set_up()
        world.grant(rights)
        clients = {right.name: log_in(right.name, right.address) for right in rights}
        for _ in attempts("the last entry"):
            if may_see(clients[rights[-1].name], "mine-topic"):
                break
        yield Matrix(world, rights, clients)


def kept(told: Mapping[str, str]) -> dict[str, str]:
    """A row as the file has it: by answer the principals; those of the most usual one are not named."""
    by_answer = defaultdict(list)
    for right, answer in told.items():
        by_answer[answer].append(right)
    usual = max(by_answer, key=lambda answer: len(by_answer[answer]))
    return {usual: "", **{answer: " ".join(names) for answer, names in by_answer.items() if answer != usual}}


def read(by_answer: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """The row that `kept` has made this of, by the names of those who asked."""
    usual = next(answer for answer, those in by_answer.items() if not those)
    named = {name: answer for answer, those in by_answer.items() for name in those.split()}
    return {name: named.get(name, usual) for name in names}


def some(told: Mapping[str, str]) -> list[str]:
    """For each answer the first, the middle and the last of the principals that get it."""
    by_answer = defaultdict(list)
    for right, answer in told.items():
        by_answer[answer].append(right)
    return sorted({names[at] for names in by_answer.values() for at in (0, len(names) // 2, -1)})


def recorded() -> Any:
    """What the file has: by mode and by request."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def write(file: Path, data: object) -> None:
    """Make a file."""
    file.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
