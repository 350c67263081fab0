"""Users and permissions as log-in and administrators see them, on a real Pulsar."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from bridge.access.security_store.security_log import SecurityUnavailable
from bridge.access.security_store.store import SecurityStore
from bridge.security.acls import CLUSTER, AclFilter, Operation, Permission, Resource, ResourceType
from bridge.security.sasl.credentials import CredentialsUnavailable
from bridge.telemetry.metrics import SecurityMetrics
from tests.access.security_store.nodes import READ, SHA, gone, site_on, user
from tests.schedules.site import Site
from tests.support.pulsar import PulsarAddress
from tests.support.state import among_data
from tests.support.waiting import until

ORDERS = Resource(ResourceType.TOPIC, "orders")


@pytest_asyncio.fixture
async def site(pulsar: PulsarAddress) -> AsyncIterator[Site]:
    async with site_on(pulsar) as found:
        yield found


async def store_on(site: Site, *, is_open: bool = False) -> SecurityStore:
    client = await site.client()
    return SecurityStore(
        client, site.admin, among_data(site.namespace), SecurityMetrics(), ["User:root"], allow_if_no_entry=is_open
    )


async def test_before_the_log_is_read_no_user_logs_in_and_super_users_alone_may_do_anything(site: Site) -> None:
    store = await store_on(site, is_open=True)
    assert await store.problem() is not None
    with pytest.raises(CredentialsUnavailable):
        await store.find(SHA, "alice")
    with pytest.raises(CredentialsUnavailable):
        store.decoys.credential(SHA, "alice", None)
    with pytest.raises(SecurityUnavailable):
        await store.change([user("alice", "a")])
    assert store.authorizer.allows_cluster("User:root", "127.0.0.1", Operation.ALTER)
    assert not store.authorizer.allows("User:alice", "127.0.0.1", Operation.READ, ORDERS)
    await store.start()
    assert await store.problem() is None
    assert store.authorizer.allows("User:alice", "127.0.0.1", Operation.READ, ORDERS)
    await store.close()


async def test_users_and_what_logging_in_costs_are_those_of_all_nodes(site: Site) -> None:
    one, two = await store_on(site), await store_on(site)
    await one.start()
    await two.start()
    await one.change([user("alice", "a"), user("bob", "b")])
    await two.catch_up()
    assert list(two.users()) == ["alice", "bob"]
    assert await two.find(SHA, "alice") == await one.find(SHA, "alice") is not None
    assert await two.find(SHA, "eve") is None
    assert (found := two.iterations(SHA)) and found.most == 4096
    assert one.decoys.credential(SHA, "eve", found) == two.decoys.credential(SHA, "eve", found)
    await two.change([gone("alice")])
    await one.catch_up()
    assert await one.find(SHA, "alice") is None
    await one.close()
    await two.close()


async def test_the_authorizer_follows_the_entries_of_all_nodes(site: Site) -> None:
    one, two = await store_on(site), await store_on(site)
    await one.start()
    await two.start()
    assert not two.authorizer.allows("User:alice", "127.0.0.1", Operation.READ, ORDERS)
    await one.create_entries([READ, READ, READ._replace(permission=Permission.DENY, principal="User:bob")])
    assert one.authorizer.allows("User:alice", "127.0.0.1", Operation.READ, ORDERS)
    await until(lambda: two.authorizer.allows("User:alice", "127.0.0.1", Operation.READ, ORDERS))
    assert not two.authorizer.allows("User:bob", "127.0.0.1", Operation.READ, ORDERS)
    deleted = await two.delete_entries([AclFilter(principal="User:alice"), AclFilter(resource_type=CLUSTER.type)])
    assert deleted == [[READ], []]
    await one.catch_up()
    assert len(one.entries()) == 1
    assert not one.authorizer.allows("User:alice", "127.0.0.1", Operation.READ, ORDERS)
    await one.close()
    await two.close()
