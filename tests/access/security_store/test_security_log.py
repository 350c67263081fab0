"""The log of users and permissions on a real Pulsar: every node makes the same of it, also after compaction."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from bridge.cli import users
from bridge.config import Settings
from bridge.owned_log.batch import Record, pack
from bridge.pulsar.admin import Retention
from bridge.pulsar.types import EARLIEST
from bridge.security.records import Kept, acl_key, acl_record
from tests.access.security_store.nodes import READ, SecurityNode, gone, node, site_on, user
from tests.schedules.site import Site
from tests.support.pulsar import PulsarAddress
from tests.support.waiting import compact, until


@pytest_asyncio.fixture
async def site(pulsar: PulsarAddress) -> AsyncIterator[Site]:
    async with site_on(pulsar) as found:
        yield found


async def close(*nodes: SecurityNode) -> None:
    for one in nodes:
        await one.log.close()


async def test_a_change_counts_on_all_nodes_and_on_those_that_start_later(site: Site) -> None:
    one, two = await node(site), await node(site)
    await one.log.append([user("alice", "a"), user("bob", "b"), acl_record(READ)])
    assert one.users == {"alice": "a", "bob": "b"}
    await two.log.catch_up()
    assert two.users == one.users and list(two.log.state.entries) == [READ]
    await two.log.append([gone("bob"), *(acl_record(READ._replace(name=f"t{number}")) for number in range(2500))])
    three = await node(site)
    await one.log.catch_up()
    for each in (one, two, three):
        assert each.users == {"alice": "a"}
        assert len(each.log.state.entries) == 2501
        assert each.metrics.users.value == 1 and each.metrics.acls.value == 2501
    await close(one, two, three)


async def test_nodes_that_change_the_same_key_agree(site: Site) -> None:
    nodes = [await node(site) for _ in range(3)]
    for _ in range(5):
        await asyncio.gather(
            *(each.log.append([user("alice", word)]) for each in nodes for word in "abcdef"),
            *(each.log.append([gone("alice")]) for each in nodes),
        )
        for each in nodes:
            await each.log.catch_up()
        assert nodes[0].users == nodes[1].users == nodes[2].users
    await close(*nodes)


async def test_nothing_is_lost_or_comes_back_by_compaction_trimming_and_reconnects(site: Site) -> None:
    await site.admin.set_namespace_retention(site.namespace, Retention(0, 0))
    one, two = await node(site), await node(site)
    topic = one.log.topic
    await one.log.append([user("alice", "a"), user("bob", "b"), acl_record(READ)])
    await compact(site.admin, topic)
    await site.admin.unload(topic)
    await one.log.append([user("alice", "c"), gone("bob")])
    await one.log.append([Kept(acl_key(READ))])
    await compact(site.admin, topic)
    await site.admin.unload(topic)
    three = await node(site)
    for each in (one, two, three):
        await each.log.catch_up()
        assert each.users == {"alice": "c"}
        assert not each.log.state.entries
    await close(one, two, three)


async def test_pulsar_keeps_the_users_past_all_retention_from_the_first_start_on(site: Site) -> None:
    one = await node(site)
    await one.log.settled()
    async with asyncio.timeout(20):
        cursors = {}
        while "__compaction" not in cursors:
            cursors = (await site.admin.internal_stats(one.log.topic)).cursors
    await close(one)


async def test_compactions_while_nodes_read_and_change_lose_nothing(site: Site) -> None:
    one, two = await node(site), await node(site)
    expected: dict[str, str] = {}

    async def change() -> None:
        for turn in range(30):
            for number in range(10):
                name, word = f"u{number}", "abcdef"[(turn + number) % 6]
                deleted = (turn + number) % 3 == 0
                expected.pop(name, None)
                if not deleted:
                    expected[name] = word
                await (one, two)[number % 2].log.append([gone(name) if deleted else user(name, word)])

    changing = asyncio.ensure_future(change())
    started = []
    while not changing.done():
        await compact(site.admin, one.log.topic)
        started.append(await node(site))
    await changing
    for each in (one, two, *started):
        await each.log.catch_up()
        assert each.users == expected
    await close(one, two, *started)


async def test_a_deletion_that_is_compacted_away_while_a_node_is_cut_off_counts_there(site: Site) -> None:
    one, two = await node(site), await node(site)
    await one.log.append([user("alice", "a"), user("bob", "b")])
    await two.log.catch_up()
    two.log._follower.stop()  # as one whose connection is lost for a while
    await one.log.append([gone("bob")])
    await one.log.append([user("alice", "d")])
    await compact(site.admin, one.log.topic)
    assert two.users == {"alice": "a", "bob": "b"}
    two.log._follower.start(None, until=two.log._read_to, caught_up=lambda: None)
    await until(lambda: two.users == {"alice": "d"})
    await close(one, two)


async def test_a_topic_that_is_deleted_is_made_again_and_is_empty(site: Site) -> None:
    one, two = await node(site), await node(site)
    await one.log.append([user("alice", "a")])
    await compact(site.admin, one.log.topic)  # while the first compaction runs, Pulsar does not delete
    await site.admin.delete_non_partitioned(one.log.topic)
    await until(lambda: not one.users and not two.users)
    await two.log.append([user("bob", "b")])
    await one.log.catch_up()
    assert one.users == {"bob": "b"}
    await close(one, two)


# ---- the audit of what others have stored ----------------------------------------------------------------------------


def told(caplog: pytest.LogCaptureFixture, node: SecurityNode | None = None) -> list[tuple[str, str]]:
    """What the audit log has of changes elsewhere, by key, since the last time."""
    fields = [one.__dict__["fields"] for one in caplog.records if one.getMessage() == "= changed elsewhere"]
    assert not any("stored_key" in str(one) for one in fields), "no secrets"
    caplog.clear()
    return sorted((one["key"], one["change"]) for one in fields)


ALICE, BOB = gone("alice").key, gone("bob").key


async def test_what_a_node_has_not_stored_itself_is_told_and_what_it_has_is_not(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "bridge.audit")
    one = await node(site)
    await one.log.append([user("alice", "a"), acl_record(READ)])
    await asyncio.gather(*(one.log.append([user("alice", word)]) for word in "abc"))
    await one.log.append([gone("alice")])
    assert told(caplog) == []
    producer = one.client.producer(one.log.topic, must_exist=True)  # a stranger's
    stored = [
        Record(*user("alice", "a")),
        Record(*acl_record(READ)),
        Record("marker", b"1"),
        Record("junk\n! x", b"x"),
    ]
    await producer.send(*pack(stored), len(stored))
    await producer.send(*pack([Record(*Kept(acl_key(READ)))]), 1)
    await one.log.catch_up()
    assert told(caplog) == [(acl_key(READ), "deleted"), (acl_key(READ), "stored"), ("junk\n! x", "stored"),
                            (ALICE, "stored")]  # fmt: skip
    await close(one)


async def test_a_flood_of_changes_is_counted(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "bridge.audit")
    one = await node(site)
    records = [Record(*acl_record(READ._replace(name=f"t{number}"))) for number in range(250)]
    producer = one.client.producer(one.log.topic, must_exist=True)
    await producer.send(*pack(records), len(records))
    await one.log.catch_up()
    more = [one.__dict__["fields"] for one in caplog.records if one.getMessage() == "= more was changed elsewhere"]
    assert [fields["count"] for fields in more] == [150]
    assert len(told(caplog)) == 100
    await close(one)


async def test_what_was_stored_while_a_node_was_cut_off_is_told_afterwards(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "bridge.audit")
    one, two = await node(site), await node(site)
    await one.log.append([user("alice", "a"), user("bob", "b")])
    await two.log.catch_up()
    two.log._follower.stop()
    await one.log.append([gone("bob"), user("alice", "c"), acl_record(READ)])
    told(caplog)
    two.log._follower.start(None, until=two.log._read_to, caught_up=lambda: None)
    await until(lambda: two.users == {"alice": "c"} and two.log._telling is not None and two.log._telling.done())
    assert told(caplog) == [(acl_key(READ), "stored"), (ALICE, "stored"), (BOB, "deleted")]
    first = two.log._telling
    two.log._follower.restart(EARLIEST)  # as every ten minutes
    await two.log.append([gone("alice")])
    await until(lambda: two.log._telling is not first and two.log._telling is not None and two.log._telling.done())
    assert [line for line in told(caplog) if line != (ALICE, "deleted")] == []
    await close(one, two)


async def test_a_user_of_the_command_line_is_told_by_the_nodes(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "bridge.audit")
    settings = Settings(pulsar=site.settings)
    await users.add(settings, "bob", "secret", ["SCRAM-SHA-256"], 4096)
    one = await node(site, site.settings)
    assert told(caplog) == []
    await users.add(settings, "alice", "secret", ["SCRAM-SHA-256"], 4096)
    await one.log.catch_up()
    assert told(caplog) == [(ALICE, "stored")]
    await close(one)
