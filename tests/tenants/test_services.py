"""What each namespace has of its own, on a real Pulsar: the same names in two of them are different things."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest_asyncio

from bridge.access.security_store.store import SecurityStore
from bridge.check.state_namespace import make_namespace
from bridge.cluster.membership.records import TopicChange, TopicEvent
from bridge.groups.budget import GroupMemory, MetadataBudget
from bridge.groups.offsets import Committer
from bridge.groups.store.records import StoredOffset
from bridge.pulsar import Admin, PulsarClient
from bridge.storage.append.deduplication import Deduplication
from bridge.storage.read.cache import Cache
from bridge.storage.read.catch_up import CatchUpReaders
from bridge.storage.services import Storage
from bridge.telemetry.metrics import Metrics
from bridge.tenants.services import NamespaceServices, storage_of
from tests.support.bridges import settings_for
from tests.support.group_slots import until_owned
from tests.support.pulsar import PulsarAddress

VIEW_SLOTS = 2


@pytest_asyncio.fixture
async def two(pulsar: PulsarAddress) -> AsyncIterator[tuple[NamespaceServices, NamespaceServices]]:
    """A bridge's own namespace, and another one."""
    own, other = pulsar.create_namespace(), pulsar.create_namespace()
    settings = settings_for(pulsar, own, {"groups": {"slots": VIEW_SLOTS}})
    metrics = Metrics()
    client, admin = PulsarClient(settings.pulsar, metrics.pulsar), Admin(settings.pulsar)
    storage = Storage(
        settings=settings,
        client=client,
        admin=admin,
        metrics=metrics.storage,
        cache=Cache(settings.storage.cache_bytes, metrics.storage),
        catch_up_readers=CatchUpReaders(4, 30, metrics.storage),
        deduplication=Deduplication(admin, own),
        writer="bridge-test",
    )
    async with AsyncExitStack() as stack:
        await admin.start()
        stack.push_async_callback(admin.close)
        await client.start()
        await make_namespace(admin, settings)
        stack.push_async_callback(client.close)
        security = SecurityStore(client, admin, settings.pulsar, metrics.security)
        memory = GroupMemory(MetadataBudget(settings.groups, metrics.groups), 1024)
        made = (
            NamespaceServices(storage, metrics, security),
            NamespaceServices(storage_of(other, storage), metrics, security, memory, VIEW_SLOTS),
        )
        for services in made:
            services.coordinate()
            await services.open()
            services.assign(range(VIEW_SLOTS), range(VIEW_SLOTS))
            await services.start()
            stack.push_async_callback(services.close)
        yield made


async def test_the_same_names_in_two_namespaces_are_different_things(
    two: tuple[NamespaceServices, NamespaceServices],
) -> None:
    own, other = two
    told: list[TopicChange] = []
    for services in two:
        services.tell_changes(told.append)
    first = await own.topics.create("t", 2)
    assert await other.topics.get("t") is None
    second = await other.topics.create("t", 3)
    assert (await own.topics.names(), await other.topics.names()) == (["t"], ["t"])
    assert (first.partitions, second.partitions, first.id != second.id) == (2, 3, True)
    assert await own.topics.by_id(second.id) is None
    assert [change.name for change in told] == ["t", f"{other.name}/t"]
    assert {change.event for change in told} == {TopicEvent.CREATED}

    for services, offset in ((own, 5), (other, 7)):
        await until_owned(services.store)
        await (await services.offsets.commit("g", Committer(), {("t", 0): StoredOffset(offset)}))
    found = [{where: one and one.offset for where, one in (await each.offsets.fetch("g")).items()} for each in two]
    assert found == [{("t", 0): 5}, {("t", 0): 7}]
    await other.groups.delete("g")
    assert [list(each.store.groups()) for each in two] == [["g"], []]

    await other.topics.delete(second)
    assert await own.topics.current("t") is first


async def test_limits_are_shared_and_what_must_not_meet_is_not(
    two: tuple[NamespaceServices, NamespaceServices],
) -> None:
    own, other = (services.topics._storage for services in two)
    for shared in ("client", "admin", "cache", "catch_up_readers", "conversion_memory", "threads", "repetition_limit"):
        assert getattr(own, shared) is getattr(other, shared)
    assert own.may_send is not other.may_send
    assert own.deduplication is not other.deduplication
    two[1].topics.hold()
    assert own.may_send.is_set() and not other.may_send.is_set()
    two[1].topics.proceed()
    assert other.may_send.is_set()
