"""`bridge import kop` and transactions, on a real Pulsar: what is stored of them, who goes by it, what is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bridge.cli.kop import transactions
from bridge.errors import SettingsError, StartupError
from bridge.pulsar import Admin
from bridge.pulsar.admin import Forbidden
from bridge.pulsar.pb.PulsarApi_pb2 import MessageMetadata
from tests.cli.kop.kop_log import ONGOING, Sent, commit, create, java_partition, snapshot, state, write
from tests.cli.kop.logged_in import conf, login, secured
from tests.cli.kop.served import leave, opened, run
from tests.clients.kop_entries import Kept, Left, batch_v2, control, marker, messages, put, verbatim
from tests.support.bridges import BridgeThread, settings_for, started_nodes
from tests.support.pulsar import PulsarAddress
from tests.support.waiting import until

PRODUCER = 5


@pytest.fixture(scope="module")
def served(pulsar: PulsarAddress) -> Iterator[BridgeThread]:
    with started_nodes(settings_for(pulsar, pulsar.create_namespace()), 1) as (bridge,):
        yield bridge


@pytest.fixture
def left(pulsar: PulsarAddress) -> str:
    """A metadata namespace of a KoP with groups and transactions."""
    namespace = pulsar.create_namespace()
    asyncio.run(leave(pulsar, namespace, {}))
    asyncio.run(keep(pulsar, namespace, "__transaction_state"))
    return namespace


async def keep(
    pulsar: PulsarAddress, namespace: str, name: str, *sent: Sent, partitions: int = 50, group: str = ""
) -> None:
    """One of KoP's topics with messages, each where its key's text, or the group, belongs."""
    async with opened(pulsar) as (client, admin):
        topic = f"persistent://{namespace}/{name}"
        if topic not in await admin.partitioned_topics(namespace):
            await create(admin, namespace, name, partitions)
        for key, value in sent:
            text = group or (key or b"")[4 if name == "__transaction_state" else 0 :].decode()
            await write(client, topic, java_partition(text, partitions), [(key, value)])


def put_into(pulsar: PulsarAddress, topic: str, entries: Sequence[Left]) -> None:
    async def do() -> None:
        async with opened(pulsar) as (client, _):
            await put(client, topic, entries)

    asyncio.run(do())


def records(*values: str) -> list[Kept]:
    return [Kept(None, value.encode(), 1_700_000_000_000) for value in values]


def written(*values: str, producer: int | None = PRODUCER) -> Left:
    some = records(*values)
    return verbatim(batch_v2(some, transactional=producer is not None, producer=producer or 0), *some)


def ended(producer: int = PRODUCER, *, committed: bool = False) -> Left:
    return verbatim(control(producer, committed=committed), count=1)


def make(
    bridge: BridgeThread, pulsar: PulsarAddress, topic: str, *entries: Left, partitions: int = 1, **log_in: str
) -> str:
    """A topic with what KoP wrote into its last partition; the full name of that."""
    admin = AdminClient({"bootstrap.servers": bridge.kafka, **log_in})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
    full = f"persistent://{bridge.namespace}/{topic}-partition-{partitions - 1}"
    put_into(pulsar, full, entries)
    return full


def read(
    bridge: BridgeThread,
    topic: str,
    partition: int = 0,
    level: str = "read_committed",
    log_in: Mapping[str, str] = MappingProxyType({}),
) -> list[str]:
    """All that a reader gets up to the end."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bridge.kafka, "group.id": "unused", "isolation.level": level,
         "enable.partition.eof": True, "enable.auto.commit": False, **log_in}
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, partition, 0)])
    found = []
    while (message := consumer.poll(30)) is not None and message.error() is None:
        found.append((message.value() or b"").decode())
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
    consumer.close()
    return found


def come_true(condition: Callable[[], bool]) -> None:
    """Wait until nodes have read what was stored."""
    asyncio.run(until(condition))


def rows(told: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(told)["transactions"]["aborted"]
    return found


ABORTED = (written("kept", producer=None), written("gone", "gone too"), ended(), written("done"), ended(committed=True))


def test_a_dry_run_tells_and_takes_nothing(pulsar: PulsarAddress, served: BridgeThread, left: str) -> None:
    make(served, pulsar, "dry", *ABORTED)
    told = run(served, left, "--topics", "dry", "--dry-run").splitlines()
    assert told[-4:] == [
        "topic  partition  aborted  records  taken",
        "dry    0          1        2        yes",
        "read: 1 partitions, 2 transactions",
        "would take: 0 offsets of 0 groups, 1 aborted transactions",
    ]
    assert read(served, "dry") == ["kept", "gone", "gone too", "done"]


def test_what_is_taken_is_followed_by_all_nodes_and_outlives_them(pulsar: PulsarAddress, left: str) -> None:
    settings = settings_for(pulsar, pulsar.create_namespace())
    with started_nodes(settings, 2) as (first, second):
        partition = make(first, pulsar, "orders", *ABORTED, partitions=3)
        for node in (first, second):
            assert read(node, "orders", 2) == ["kept", "gone", "gone too", "done"]
        run(first, left)
        come_true(lambda: all(read(node, "orders", 2) == ["kept", "done"] for node in (first, second)))
        assert read(second, "orders", 2, "read_uncommitted") == ["kept", "gone", "gone too", "done"]
        # what is written from now on is no matter of KoP's, whoever writes it
        put_into(pulsar, partition, [written("a stranger's"), ended()])
        assert read(first, "orders", 2) == ["kept", "done", "a stranger's"]
    with started_nodes(settings, 1) as (third,):
        assert read(third, "orders", 2) == ["kept", "done", "a stranger's"]
        (found,) = rows(run(third, left, "--what", "transactions", "--dry-run", "--json"))
        assert (found["topic"], found["partition"], found["transactions"], found["taken"]) == ("orders", 2, 2, True)


def test_a_topic_of_the_same_name_has_nothing_left_out(pulsar: PulsarAddress, served: BridgeThread, left: str) -> None:
    make(served, pulsar, "again", *ABORTED)
    run(served, left, "--topics", "again")
    come_true(lambda: read(served, "again") == ["kept", "done"])
    admin = AdminClient({"bootstrap.servers": served.kafka})
    admin.delete_topics(["again"])["again"].result(30)
    make(served, pulsar, "again", written("kept", producer=None), written("new", "new too", producer=None))
    assert read(served, "again") == ["kept", "new", "new too"]


def test_without_transactions_nothing_is_read(pulsar: PulsarAddress, served: BridgeThread) -> None:
    make(served, pulsar, "none", *ABORTED)
    namespace = pulsar.create_namespace()
    asyncio.run(leave(pulsar, namespace, {}))
    assert run(served, namespace).splitlines()[-1] == "taken: 0 offsets of 0 groups"
    assert "transactions" not in json.loads(run(served, namespace, "--json"))
    assert run(served, namespace, "--what", "transactions", "--topics", "none").splitlines() == [
        "topic  partition  aborted  records  taken",
        "none   0          1        2        yes",
        "read: 1 partitions, 2 transactions",
        "taken: 0 offsets of 0 groups, 1 aborted transactions",
    ]


def test_a_living_kop_is_refused(pulsar: PulsarAddress, served: BridgeThread, left: str) -> None:
    make(served, pulsar, "living", *ABORTED)

    async def beside() -> None:
        async with opened(pulsar) as (client, _):
            producer = client.producer(f"persistent://{left}/__transaction_state-partition-7")
            await producer.send(MessageMetadata(), b"", 1)
            with pytest.raises(StartupError, match="KoP still runs: 1 of its producers and readers"):
                await asyncio.to_thread(run, served, left)
            assert "would take" in await asyncio.to_thread(run, served, left, "--topics", "living", "--dry-run")
            await producer.close()

    asyncio.run(beside())
    assert read(served, "living") == ["kept", "gone", "gone too", "done"]


def test_what_never_ended_is_aborted_where_kop_says_that_it_was_open(
    pulsar: PulsarAddress, served: BridgeThread, left: str
) -> None:
    make(served, pulsar, "open", written("hanging", producer=8), written("open"), written("more", producer=None))
    full = f"persistent://{served.namespace}/open"
    asyncio.run(keep(pulsar, left, "__transaction_state", state("t", PRODUCER, ONGOING, (full, 0))))
    told = run(served, left, "--topics", "open")
    assert (
        "open   0          1        1        yes; 1 never ended: aborted, as by their time-out; "
        "the end of 1 is not known: read as if committed"
    ) in told.splitlines()
    come_true(lambda: read(served, "open") == ["hanging", "more"])


def test_a_later_run_takes_back_only_what_it_knows_better(
    pulsar: PulsarAddress, served: BridgeThread, left: str
) -> None:
    """KoP's own topics are kept for days: a run without them knows less. One after KoP has gone on knows more."""
    partition = make(served, pulsar, "later", written("open"), *ABORTED[:1], written("gone", producer=6), ended(6))
    make(served, pulsar, "committed", written("open"))
    full = f"persistent://{served.namespace}"
    asyncio.run(keep(pulsar, left, "__transaction_state",
                     state("t", PRODUCER, ONGOING, (f"{full}/later", 0), (f"{full}/committed", 0))))  # fmt: skip
    topics = ("--topics", "later|committed")
    run(served, left, *topics)
    come_true(lambda: read(served, "later") == ["kept"] and read(served, "committed") == [])
    forgotten = pulsar.create_namespace()
    asyncio.run(leave(pulsar, forgotten, {}))
    assert run(served, forgotten, "--what", "transactions", *topics).count("is so already") == 2
    put_into(pulsar, f"{full}/committed-partition-0", [ended(committed=True)])
    put_into(pulsar, partition, [ended(committed=True)])
    told = run(served, left, *topics)
    assert "committed  0          0        0        nothing is left out any more" in told.splitlines()
    come_true(lambda: read(served, "later") == ["open", "kept"] and read(served, "committed") == ["open"])


@pytest.mark.parametrize("kind", ["kafka", "pulsar"])
def test_a_snapshot_says_what_became_of_what_has_no_end(
    pulsar: PulsarAddress, served: BridgeThread, left: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of all of format `pulsar` where this login may not ask for markers."""
    topic = f"snapshot-{kind}"
    if kind == "kafka":
        entries = [written("gone"), written("done", producer=6), written("later")]
    else:
        entries = [messages(*records("gone"), producer=PRODUCER), marker(PRODUCER, committed=False),
                   messages(*records("done"), producer=PRODUCER), marker(PRODUCER),
                   messages(*records("later"), producer=PRODUCER), messages(*records("last"))]  # fmt: skip
    partition = make(served, pulsar, topic, *entries)
    end = 2 if kind == "kafka" else 4
    asyncio.run(keep(pulsar, left, "__transaction_producer_state",
                     snapshot(partition, end, aborted=[(PRODUCER, 0, 0)]), partitions=8))  # fmt: skip

    async def refuse(*_: object) -> None:
        raise Forbidden(403, "not for you")

    with monkeypatch.context() as patched:
        if kind == "pulsar":
            patched.setattr(Admin, "transaction_end", refuse)
        told = run(served, left, "--topics", topic)
    assert "yes; the end of 1 is not known" in told
    assert ("not for you" in told) == (kind == "pulsar")
    wanted = ["done", "later", *(["last"] if kind == "pulsar" else [])]
    come_true(lambda: read(served, topic) == wanted)


def test_a_tenant_s_topics_are_named_by_their_namespace(pulsar: PulsarAddress, tmp_path: Path, left: str) -> None:
    theirs = pulsar.create_namespace()
    settings = secured(pulsar, tmp_path, theirs).with_values(
        tenants={"rules": "principal User:*/* -> $1/$2", "namespaces": theirs}
    )
    with started_nodes(settings, 1) as (bridge,):
        admin = AdminClient({"bootstrap.servers": bridge.kafka, **login(theirs)})
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(30)
        put_into(pulsar, f"persistent://{theirs}/orders-partition-0", ABORTED)
        asyncio.run(keep(pulsar, left, "__consumer_offsets",
                         commit("mine", f"persistent://{theirs}/orders", {0: 1}), group="mine"))  # fmt: skip
        logged_in = ("--kafka-conf", conf(tmp_path, theirs))
        tenant, _, name = theirs.partition("/")
        of_theirs = settings.with_values(pulsar={"tenant": tenant, "namespace": name})
        with pytest.raises(StartupError, match="a tenant's namespace goes into --namespace"):
            run(bridge, left, *logged_in, settings=of_theirs)
        told = run(bridge, left, *logged_in, "--namespace", theirs)
        assert told.endswith("taken: 1 offsets of 1 groups, 1 aborted transactions\n")
        come_true(lambda: read(bridge, "orders", log_in=login(theirs)) == ["kept", "done"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--namespace", "public"), "--namespace public: not TENANT/NAMESPACE"),
        (("--what", "users"), "--what users: not one of groups, transactions"),
        (("--topics", "("), r"--topics \(: no regular expression"),
    ],
)
def test_wrong_options_are_told(served: BridgeThread, left: str, options: tuple[str, ...], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        run(served, left, *options)


def test_what_cannot_be_taken_is_told_and_fails(
    pulsar: PulsarAddress, served: BridgeThread, left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(served, pulsar, "many", *ABORTED)
    monkeypatch.setattr(transactions, "MAX_RUNS", 0)
    assert "more than 0 runs of aborted records" in run(served, left, "--topics", "many", exit_code=1)
    assert read(served, "many") == ["kept", "gone", "gone too", "done"]


def test_all_topics_together_have_so_many_runs(
    pulsar: PulsarAddress, served: BridgeThread, left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(served, pulsar, "beyond", *ABORTED)
    monkeypatch.setattr(transactions, "_MOST_RUNS", 0)
    told = run(served, left, "--topics", "beyond", exit_code=1)
    assert "more than 0 runs of aborted records in all topics" in told
    assert read(served, "beyond") == ["kept", "gone", "gone too", "done"]
