"""Hosts that a broker names, judged without a broker; `connection/test_lookup.py` has one that lies."""

import asyncio
import socket
from collections.abc import Collection

import pytest

from bridge.config import PulsarSettings
from bridge.pulsar.auth.host_check import HostCheck, HostRefused
from bridge.pulsar.types import ConnectionLost
from bridge.telemetry.metrics import PulsarMetrics

ADDRESSES = {
    "pulsar.example.com": "10.0.0.1", "broker.example.com": "10.0.0.2", "rebound.example.com": "169.254.169.254",
    "home.example.com": "127.0.0.1", "told-1": "10.0.0.3", "foreign": "10.0.0.9", "world": "8.8.8.8",
    "local": "127.0.0.1",
}  # fmt: skip
REMOTE = {"service_url": "pulsar://pulsar.example.com:6650", "admin_url": "http://pulsar.example.com:8080"}


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resolver that knows a few names more."""
    real = socket.getaddrinfo

    def resolve(host: str, *arguments: int, **more: int) -> object:
        return real(ADDRESSES.get(host, host), *arguments, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


def check(
    allowed_hosts: str = "", brokers: Collection[str] | None = None, listener_name: str = "", **urls: str
) -> HostCheck:
    settings = PulsarSettings(allowed_hosts=allowed_hosts, listener_name=listener_name, **(urls or REMOTE))  # type: ignore[arg-type]
    made = HostCheck(settings, PulsarMetrics())

    async def ask() -> Collection[str] | None:
        return brokers

    made.ask_brokers = ask
    return made


async def allows(hosts: HostCheck, host: str) -> bool:
    try:
        found = await hosts.addresses(host, 6650)
    except HostRefused:
        return False
    assert found
    return True


@pytest.mark.parametrize("host", ["pulsar.example.com", "PULSAR.example.com", "10.0.0.1", "broker.example.com"])
async def test_hosts_of_the_settings_and_of_their_domain_are_reached(host: str) -> None:
    assert await allows(check(), host)


NOWHERE = [
    "169.254.169.254", "fe80::1", "fe80::1%eth0", "::ffff:169.254.169.254", "0xa9fea9fe", "2852039166",
    "rebound.example.com", "127.0.0.1", "localhost", "0.0.0.0", "::",  # noqa: S104
    "127.1", "home.example.com",
]  # fmt: skip


@pytest.mark.parametrize("host", NOWHERE)
@pytest.mark.parametrize("allowed", ["", "*"])
async def test_link_local_and_this_machine_are_not_reached_by_any_name(host: str, allowed: str) -> None:
    assert not await allows(check(allowed, brokers=NOWHERE), host)


async def test_an_address_that_the_settings_list_is_reached_whatever_it_is() -> None:
    assert await allows(check("169.254.0.0/16,127.0.0.1"), "rebound.example.com")
    assert await allows(check("169.254.0.0/16,127.0.0.1"), "localhost")


async def test_with_a_list_in_the_settings_nothing_else_counts() -> None:
    hosts = check("broker.*,10.0.0.3", brokers=["foreign"])
    assert [await allows(hosts, host) for host in ("broker.example.com", "told-1", "pulsar.example.com")] == [True] * 3
    assert not any([await allows(hosts, host) for host in ("foreign", "10.0.0.9", "world")])


async def test_the_brokers_that_are_listed_are_reached_by_name_or_address_and_no_others() -> None:
    hosts = check(brokers=["Told-1"])
    assert [await allows(hosts, host) for host in ("told-1", "10.0.0.3")] == [True, True]
    assert not any([await allows(hosts, host) for host in ("foreign", "10.0.0.9", "world")])


async def test_the_list_is_asked_for_again_when_a_broker_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.pulsar.auth.host_check._ASK_AGAIN_SECONDS", 0.0)
    brokers = ["told-1"]
    hosts = check(brokers=brokers)
    assert not await allows(hosts, "foreign")
    brokers.append("foreign")
    assert await allows(hosts, "foreign")


async def test_without_a_list_the_same_kind_of_network_is_reached() -> None:
    assert await allows(check(), "foreign")
    assert not await allows(check(), "world")
    world = check(service_url="pulsar://world:6650", admin_url="http://world:8080")
    assert not any([await allows(world, host) for host in ("foreign", "8.8.4.4", "127.0.0.1")])


async def test_a_listener_of_another_name_is_not_judged_by_the_list() -> None:
    assert await allows(check(brokers=["told-1"], listener_name="outside"), "foreign")
    assert not await allows(check(brokers=["told-1"], listener_name="outside"), "world")


async def test_beside_this_machine_only_this_machine_is_reached() -> None:
    local = check(service_url="pulsar://127.0.0.1:6650", admin_url="http://127.0.0.1:8080")
    assert [await allows(local, host) for host in ("localhost", "127.0.0.2", "local")] == [True] * 3
    assert not any([await allows(local, host) for host in ("foreign", "world", "169.254.169.254")])


async def test_a_question_for_the_list_that_is_itself_sent_elsewhere_ends() -> None:
    hosts = check()

    async def redirected() -> Collection[str]:
        return await hosts.addresses("world", 80)

    hosts.ask_brokers = redirected
    async with asyncio.timeout(10):
        assert not await allows(hosts, "foreign")


async def test_what_is_no_name_is_no_host() -> None:
    with pytest.raises(ConnectionLost):
        await check().addresses("no-such-host.invalid", 6650)


async def test_refusals_are_counted() -> None:
    metrics = PulsarMetrics()
    hosts = HostCheck(PulsarSettings(**REMOTE), metrics)  # type: ignore[arg-type]
    for _ in range(2):
        assert not await allows(hosts, "169.254.169.254")
    assert metrics.hosts_refused.value == 2
