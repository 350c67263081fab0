"""The log of users and permissions on a real Pulsar: every node makes the same of it, also after compaction."""

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio

from bridge.pulsar.admin import Retention
from bridge.security.records import Kept, acl_key, acl_record
from tests.schedules.site import Site
from tests.security_store.nodes import READ, SecurityNode, gone, node, site_on, user
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
