"""Transactions of every client family that has them: what readers of both levels see, and where they come to.

Kafka's markers take offsets and the bridge has none, so that values and their order are compared, and positions only
with the ends that the same server tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import count

import pytest

from tests.apis.wire import unique
from tests.clients.endpoint import Clients, Endpoint
from tests.clients.model import Draft, attempts
from tests.clients.transactions.families import FAMILIES, GO, KCAT, Families
from tests.clients.transactions.kcat import KcatTransaction
from tests.clients.transactions.model import Copier, Ended, Fenced, Producer, Reader, Seen
from tests.clients.transactions.raw import READ_COMMITTED, READ_UNCOMMITTED, RawProducer, await_leaders
from tests.faults.processes import let_pass

KCAT_SENDS = tuple(letter * 10_000 for letter in "abc")
"""It reads 4 KiB of its input at a time: the first two are on their way before its end."""
LACKING = {
    # it sends offsets with the commit, and without the generation of KIP-447
    "sarama": {"test_offsets_go_with_their_transaction", "test_copiers_copy_exactly_once_while_members_come_and_go"}
}
SHORT_MS = 4_000
"""A time-out that is waited for; Kafka looks every ten seconds."""
PARTITIONS = 3
_LOOK_EVERY = 0.1


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    go = tuple(GO) if metafunc.config.getoption("--go", default=False) else ()
    known = [one for one in (*FAMILIES, *go) if metafunc.function.__name__ not in LACKING.get(one, ())]
    for name in ("family", "writer", "reader"):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, (*known, KCAT) if name == "reader" else known)


class Stage:
    """A topic, the clients of one family at it, and what others do there."""

    def __init__(self, clients: Clients, families: Families, family: str, partitions: int = 1) -> None:
        self._clients, self._family, self._partitions = clients, families[family], partitions
        self._open = ExitStack()
        self.topic = self.new_topic(partitions)
        self.raw = RawProducer(clients.endpoint.kafka, self.topic)
        self._open.callback(self.raw.close)

    def new_topic(self, partitions: int) -> str:
        """Another topic."""
        topic = unique("transactions")
        self._clients["confluent"].create_topic(topic, partitions)
        await_leaders(self._clients.endpoint.kafka, topic, partitions)
        return topic

    def producer(self, transactional_id: str = "", timeout_ms: int = 60_000) -> Producer:
        """A transactional producer, with the raw one's id by default."""
        made = self._family.producer(transactional_id or self.raw.transactional_id, timeout_ms)
        self._open.callback(made.close)
        return made

    def reader(self, *, committed: bool, topic: str = "") -> Reader:
        """A reader of all partitions."""
        made = self._family.reader(topic or self.topic, range(self._partitions), committed=committed)
        self._open.callback(made.close)
        return made

    def readers(self) -> tuple[Reader, Reader]:
        """One of committed records, one of all."""
        return self.reader(committed=True), self.reader(committed=False)

    def copier(self, target: str, group: str) -> Copier:
        """A copier from the topic."""
        return self._family.copier(self.topic, target, group)

    def write(self, *values: str, family: str = "confluent", partition: int = 0) -> None:
        """Write without a transaction; kafka-python's producer is idempotent."""
        drafts = [Draft(value, value.encode(), b"k", partition=partition) for value in values]
        self._clients[family].write(self.topic, drafts)

    def is_at_end(self, reader: Reader, level: int, partition: int = 0) -> bool:
        """Whether a reader's lag is 0, once all is decided that has been answered."""
        self.raw.settled()
        reader.read()
        return reader.position(partition) == self.raw.offset(level, partition=partition)

    def close(self) -> None:
        """Let go of all."""
        self._open.close()


Make = Callable[..., Stage]


@pytest.fixture(scope="session")
def families(endpoint: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Families]:
    """The families."""
    made = Families(endpoint, tmp_path_factory.mktemp("transactions"))
    yield made
    made.close()


@pytest.fixture
def stage(clients: Clients, families: Families) -> Iterator[Make]:
    """Make a stage."""
    with ExitStack() as made:

        def make(family: str, partitions: int = 1) -> Stage:
            one = Stage(clients, families, family, partitions)
            made.callback(one.close)
            return one

        yield make


def until_read(reader: Reader, number: int, partition: int = 0) -> list[str]:
    """Read until there are so many: Kafka shows an outcome some time after it has answered."""
    values: list[str] = []
    for _ in attempts(f"{number} records"):
        values += reader.read()[partition]
        if len(values) >= number:
            break
    return values


def test_a_committed_transaction_is_read_at_both_levels(stage: Make, family: str) -> None:
    here = stage(family)
    committed, everything = here.readers()
    producer = here.producer()
    producer.begin()
    producer.send(here.topic, ["a", "b", "c"])
    producer.commit()
    assert until_read(committed, 3) == until_read(everything, 3) == ["a", "b", "c"]
    assert here.is_at_end(committed, READ_COMMITTED)
    assert here.is_at_end(everything, READ_UNCOMMITTED)


def test_an_aborted_transaction_is_passed_over(stage: Make, family: str) -> None:
    here = stage(family)
    committed, everything = here.readers()
    producer = here.producer()
    producer.begin()
    producer.send(here.topic, ["a", "b", "c"])
    producer.abort()
    assert here.is_at_end(committed, READ_COMMITTED)
    here.write("after")
    assert until_read(committed, 1) == ["after"]
    assert until_read(everything, 4) == ["a", "b", "c", "after"]
    assert here.is_at_end(committed, READ_COMMITTED)


def test_an_aborted_end_is_passed_by_who_comes_later(stage: Make, family: str) -> None:
    here = stage(family)
    producer = here.producer()
    producer.begin()
    producer.send(here.topic, ["a"])
    producer.abort()
    here.raw.settled()
    reader = here.reader(committed=True)
    assert reader.read() == {0: []}
    assert reader.position(0) == here.raw.offset(READ_COMMITTED) == here.raw.offset(READ_UNCOMMITTED) > 0


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "abort"])
def test_an_open_transaction_is_read_at_one_level_alone(stage: Make, family: str, commits: bool) -> None:
    here = stage(family)
    committed, everything = here.readers()
    here.write("before")
    producer = here.producer()
    producer.begin()
    producer.send(here.topic, ["a", "b"])
    assert until_read(everything, 3) == ["before", "a", "b"]
    assert until_read(committed, 1) == ["before"]
    assert committed.read() == {0: []}
    assert committed.position(0) == here.raw.offset(READ_COMMITTED) == 1
    assert everything.position(0) == here.raw.offset(READ_UNCOMMITTED) == 3
    producer.commit() if commits else producer.abort()
    assert until_read(committed, 2 if commits else 0) == (["a", "b"] if commits else [])
    assert here.is_at_end(committed, READ_COMMITTED)
    assert here.raw.held() == 0


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "abort"])
def test_others_write_between_its_records(stage: Make, family: str, commits: bool) -> None:
    here = stage(family)
    committed, everything = here.readers()
    producer = here.producer()
    here.write("plain 1")
    producer.begin()
    producer.send(here.topic, ["mine 1"])
    here.write("idempotent 1", family="kafka-python")
    producer.send(here.topic, ["mine 2"])
    here.write("plain 2", family="aiokafka")
    assert until_read(committed, 1) == ["plain 1"]
    assert until_read(everything, 5) == ["plain 1", "mine 1", "idempotent 1", "mine 2", "plain 2"]
    producer.commit() if commits else producer.abort()
    here.write("plain 3")
    rest = ["mine 1", "idempotent 1", "mine 2", "plain 2", "plain 3"] if commits else [
        "idempotent 1", "plain 2", "plain 3",
    ]  # fmt: skip
    assert until_read(committed, len(rest)) == rest
    assert until_read(everything, 1) == ["plain 3"]


def test_partitions_of_several_topics_in_one_transaction(stage: Make, family: str) -> None:
    here = stage(family, PARTITIONS)
    other = here.new_topic(PARTITIONS)
    readers = {topic: here.reader(committed=True, topic=topic) for topic in (here.topic, other)}
    producer = here.producer()
    wanted = {topic: {partition: [f"{topic} {partition}"] for partition in range(PARTITIONS)} for topic in readers}
    for attempt in ("aborted", "committed"):
        producer.begin()
        for topic, partitions in wanted.items():
            for partition, values in partitions.items():
                producer.send(topic, [f"{attempt} {values[0]}"], partition)
        assert all(reader.read() == {key: [] for key in range(PARTITIONS)} for reader in readers.values())
        producer.abort() if attempt == "aborted" else producer.commit()
    here.raw.settled()
    for topic, reader in readers.items():
        assert reader.read() == {partition: [f"committed {topic} {partition}"] for partition in range(PARTITIONS)}


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "abort"])
def test_offsets_go_with_their_transaction(stage: Make, family: str, commits: bool) -> None:
    here = stage(family)
    producer = here.producer()
    assert here.raw.commit_plainly(3) == "NONE"
    producer.begin()
    producer.send(here.topic, ["output"])
    producer.send_offsets(here.raw.group, here.topic, {0: 7})
    assert here.raw.committed(stable=False) == "3"
    assert here.raw.committed(stable=True) == "UNSTABLE_OFFSET_COMMIT"
    producer.commit() if commits else producer.abort()
    here.raw.settled()
    wanted = "7" if commits else "3"
    assert (here.raw.committed(stable=False), here.raw.committed(stable=True)) == (wanted, wanted)


def test_a_second_instance_fences_the_first(stage: Make, family: str) -> None:
    here = stage(family)
    reader = here.reader(committed=True)
    first = here.producer()
    first.begin()
    first.send(here.topic, ["of the first"])
    second = here.producer()
    with pytest.raises(Fenced):
        first.send(here.topic, ["too late"])
        first.commit()
    second.begin()
    second.send(here.topic, ["of the second"])
    second.commit()
    assert until_read(reader, 1) == ["of the second"]


def test_a_fenced_instance_cannot_commit(stage: Make, family: str) -> None:
    here = stage(family)
    reader = here.reader(committed=True)
    first = here.producer()
    first.begin()
    first.send(here.topic, ["of the first"])
    first.send_offsets(here.raw.group, here.topic, {0: 7})
    here.producer()
    with pytest.raises(Fenced):
        first.commit()
    assert here.is_at_end(reader, READ_COMMITTED)
    assert here.raw.committed(stable=True) == "-1"
    here.write("after")
    assert until_read(reader, 1) == ["after"]


def test_a_transaction_times_out(stage: Make, family: str) -> None:
    here = stage(family)
    reader = here.reader(committed=True)
    producer = here.producer(timeout_ms=SHORT_MS)
    producer.begin()
    producer.send(here.topic, ["too slow"])
    producer.send_offsets(here.raw.group, here.topic, {0: 7})
    here.write("after")
    assert reader.read() == {0: []}
    for _ in attempts("the time-out"):
        if here.raw.settled().transaction_state != "Ongoing":
            break
        let_pass(_LOOK_EVERY)
    assert until_read(reader, 1) == ["after"]
    assert here.raw.committed(stable=True) == "-1"
    with pytest.raises(Ended):
        producer.commit()
    again = here.producer()
    again.begin()
    again.send(here.topic, ["in time"])
    again.commit()
    assert until_read(reader, 1) == ["in time"]


def test_empty_transactions(stage: Make, family: str) -> None:
    here = stage(family)
    reader = here.reader(committed=True)
    producer = here.producer()
    for end in (producer.commit, producer.abort, producer.commit):
        producer.begin()
        end()
    assert reader.read() == {0: []}
    assert reader.position(0) == 0
    producer.begin()
    producer.send(here.topic, ["a"])
    producer.commit()
    assert until_read(reader, 1) == ["a"]


def test_a_thousand_records_in_many_batches(stage: Make, family: str) -> None:
    here = stage(family)
    committed, everything = here.readers()
    producer = here.producer()
    values = [f"value {number}" for number in range(1000)]
    for attempt in ("aborted", "committed"):
        producer.begin()
        for at in range(0, len(values), 25):
            producer.send(here.topic, [f"{attempt} {value}" for value in values[at : at + 25]])
        assert committed.read() == {0: []}
        producer.abort() if attempt == "aborted" else producer.commit()
    assert until_read(committed, 1000) == [f"committed {value}" for value in values]
    assert until_read(everything, 2000) == [f"{how} {value}" for how in ("aborted", "committed") for value in values]


def test_a_producer_goes_on_after_an_abort(stage: Make, family: str) -> None:
    here = stage(family)
    reader = here.reader(committed=True)
    producer = here.producer()
    for number in range(6):
        producer.begin()
        producer.send(here.topic, [f"{number}"])
        producer.abort() if number % 2 else producer.commit()
    assert until_read(reader, 3) == ["0", "2", "4"]
    assert here.is_at_end(reader, READ_COMMITTED)


def test_an_instance_that_comes_back_aborts_what_it_had_open(stage: Make, family: str) -> None:
    here = stage(family)
    reader = here.reader(committed=True)
    gone = here.producer()
    gone.begin()
    gone.send(here.topic, ["of the one that is gone"])
    back = here.producer()
    assert here.is_at_end(reader, READ_COMMITTED)
    back.begin()
    back.send(here.topic, ["of the one that is back"])
    back.commit()
    assert until_read(reader, 1) == ["of the one that is back"]


def test_a_mixed_log_is_read_by_every_client(stage: Make, families: Families, writer: str, reader: str) -> None:
    here = stage(writer, PARTITIONS)
    producer = here.producer()
    seen: dict[bool, Seen] = {level: {partition: [] for partition in range(PARTITIONS)} for level in (True, False)}
    numbers = count()
    for commits in (True, False, False, True, False, True):
        producer.begin()
        for partition in range(PARTITIONS):
            values = [f"{next(numbers)}" for _ in range(3)]
            producer.send(here.topic, values, partition)
            here.write(f"plain {values[0]}", partition=partition)
            seen[False][partition] += [*values, f"plain {values[0]}"]
            seen[True][partition] += [*(values if commits else ()), f"plain {values[0]}"]
        producer.commit() if commits else producer.abort()
    here.raw.settled()
    producer.begin()
    producer.send(here.topic, ["open"])
    seen[False][0].append("open")
    for committed, wanted in seen.items():
        with closing(families.readers_of(reader).reader(here.topic, range(PARTITIONS), committed=committed)) as there:
            assert there.read() == wanted


def test_copiers_copy_exactly_once_while_members_come_and_go(stage: Make, family: str) -> None:
    here = stage(family, PARTITIONS)
    target, group = here.new_topic(PARTITIONS), unique("copiers")
    reader = here.reader(committed=True, topic=target)
    wanted: Seen = {partition: [] for partition in range(PARTITIONS)}
    copied: Seen = {partition: [] for partition in range(PARTITIONS)}

    def write(number: int) -> None:
        for partition, values in wanted.items():
            more = [f"{partition}/{len(values) + at}" for at in range(number // PARTITIONS)]
            here.write(*more, partition=partition)
            values += more

    def until_copied(number: int) -> None:
        for _ in attempts(f"{number} copies"):
            for partition, values in reader.read().items():
                copied[partition] += values
            if sum(map(len, copied.values())) >= number:
                return
            let_pass(_LOOK_EVERY)

    write(60)
    copiers = [here.copier(target, group)]
    try:
        until_copied(30)
        write(60)
        copiers.append(here.copier(target, group))
        write(60)
        until_copied(180)
        write(60)
        copiers.pop(0).stop()
        write(60)
        until_copied(300)
    finally:
        for copier in copiers:
            copier.stop()
    assert copied == wanted


@pytest.fixture
def kcat(clients: Clients, families: Families) -> Iterator[Callable[[Stage], KcatTransaction]]:
    """Begin a transaction of kcat's, with the raw producer's id."""
    with ExitStack() as running:

        def begin(here: Stage) -> KcatTransaction:
            here.producer(unique("earlier"))  # kcat waits 5 s for a coordinator, and a Kafka's first one takes longer
            begun = KcatTransaction(clients.endpoint.kafka, here.topic, here.raw.transactional_id)
            running.callback(begun.close)
            return begun

        yield begin


def test_a_run_of_kcat_is_a_transaction(
    stage: Make, families: Families, kcat: Callable[[Stage], KcatTransaction]
) -> None:
    here = stage("confluent")
    everything = here.reader(committed=False)
    committed = families.readers_of(KCAT).reader(here.topic, [0], committed=True)
    here.write("before")
    running = kcat(here)
    running.send(*KCAT_SENDS)
    assert until_read(everything, 2)[:2] == ["before", KCAT_SENDS[0]]
    assert until_read(committed, 1) == ["before"]
    assert committed.position(0) == 1
    running.commit()
    here.write("after")
    assert until_read(committed, len(KCAT_SENDS) + 1) == [*KCAT_SENDS, "after"]
    assert here.is_at_end(committed, READ_COMMITTED)


@pytest.mark.parametrize("killed", [True, False], ids=["killed", "alive"])
def test_a_second_run_of_kcat_fences_the_first(
    stage: Make, families: Families, kcat: Callable[[Stage], KcatTransaction], killed: bool
) -> None:
    here = stage("confluent")
    everything = here.reader(committed=False)
    committed = families.readers_of(KCAT).reader(here.topic, [0], committed=True)
    first = kcat(here)
    first.send(*KCAT_SENDS)
    assert KCAT_SENDS[0] in until_read(everything, 1)
    if killed:
        first.close()
    second = kcat(here)
    second.send("of the second")
    second.commit()
    if not killed:
        with pytest.raises(Ended):
            first.commit()
    assert until_read(committed, 1) == ["of the second"]
    assert here.is_at_end(committed, READ_COMMITTED)
