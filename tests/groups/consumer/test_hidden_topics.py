"""Members that may not describe all topics: a pattern fits what their own client may know of, nothing tells more."""

from collections.abc import Collection

import pytest

from bridge.errors import KafkaError
from bridge.groups.consumer import patterns as consumer_patterns
from bridge.groups.consumer import topics as consumer_topics
from bridge.groups.consumer.topics import ALL_CLIENTS, Viewer
from bridge.kafka.error_codes import ErrorCode
from tests.groups.consumer.bench import Bench, error_code
from tests.groups.fake_topics import FakeTopic, FakeTopics

_SECONDS = 6
"""After so long topics are looked at again."""


@pytest.fixture(autouse=True)
def _lists_are_never_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_topics, "_NAMES_ARE_FRESH", -1.0)


class Client:
    """A client with rights that may change."""

    def __init__(self, name: str, *prefixes: str) -> None:
        self.prefixes = prefixes
        self.asked: list[Collection[str]] = []
        self.refuses: KafkaError | None = None
        self.viewer = Viewer(f"User:{name}", self.describable)

    async def describable(self, names: Collection[str]) -> Collection[str]:
        self.asked.append(names)
        if self.refuses is not None:
            raise self.refuses
        return [name for name in names if name.startswith(self.prefixes)]


def bench_of(**topics: int) -> Bench:
    return Bench(topics=FakeTopics(**topics))


async def test_a_pattern_fits_what_its_client_may_describe() -> None:
    bench, alice = bench_of(mine=2, other=2), Client("alice", "mine")
    beat = await bench.joined(topics=None, regex=".*", viewer=alice.viewer)
    assert bench.topics_of(beat) == {"mine"}


async def test_a_topic_that_is_hidden_is_as_one_that_is_not_there() -> None:
    bench, alice = bench_of(other=2), Client("alice", "mine")
    told = []
    for group, regex in (("a", "other"), ("b", "none"), ("c", ".*")):
        beat = await bench.joined(group=group, topics=None, regex=regex, viewer=alice.viewer)
        snapshot = await bench.groups.consumer_snapshot(group)
        assert snapshot is not None
        told.append((beat.epoch, beat.assignment, snapshot.epoch, snapshot.state, snapshot.view.topics))
    assert told[0] == told[1] == told[2]


async def test_hidden_topics_that_come_and_go_raise_no_epoch() -> None:
    bench, alice = bench_of(mine=2), Client("alice", "mine")
    assert (await bench.joined(topics=None, regex=".*", viewer=alice.viewer)).epoch == 1
    writes = bench.store.writes
    for change in (lambda: bench.topics.here.update(other=FakeTopic(3)), lambda: bench.topics.here.pop("other")):
        change()
        await bench.clock.advance(_SECONDS)
        beat = await bench.beat("m", 1, viewer=alice.viewer)
        assert (beat.epoch, beat.assignment) == (1, None)
    assert bench.store.writes == writes


async def test_members_of_one_pattern_see_each_what_its_own_client_may() -> None:
    bench = bench_of(mine=2, yours=2)
    alice, bob = Client("alice", "mine"), Client("bob", "mine", "yours")
    await bench.joined("a", topics=None, regex=".*", viewer=alice.viewer)
    await bench.joined("b", topics=None, regex=".*", viewer=bob.viewer)
    group = bench.groups._consumer.loaded["g"].group
    for _ in range(3):  # in turns, as their heartbeats come
        await bench.clock.advance(_SECONDS)
        for name, client in (("a", alice), ("b", bob)):
            member = group.snapshot.members[name]
            await bench.beat(name, member.epoch, viewer=client.viewer, owned=member.assigned)
    names = {topic.id: name for name, topic in bench.topics.here.items()}
    seen = {one.id: {names[topic] for topic in one.assigned} for one in group.snapshot.members.values()}
    assert seen["a"] == {"mine"}
    assert "yours" in seen["b"]
    assert group.snapshot.epoch == 2  # no member takes back what another one found


async def test_rights_that_change_count_at_the_next_look() -> None:
    bench, alice = bench_of(mine=1, other=1), Client("alice", "mine")
    beat = await bench.joined(topics=None, regex=".*", viewer=alice.viewer)
    alice.prefixes = ("mine", "other")
    await bench.clock.advance(_SECONDS)
    beat = await bench.beat("m", beat.epoch, viewer=alice.viewer, owned=beat.assignment)
    assert bench.topics_of(beat) == {"mine", "other"}
    alice.prefixes = ("other",)
    await bench.clock.advance(_SECONDS)
    beat = await bench.beat("m", beat.epoch, viewer=alice.viewer, owned=beat.assignment)
    assert bench.topics_of(beat) == {"other"}


async def test_each_client_looks_for_itself_however_often_others_do() -> None:
    bench = bench_of(mine=1)
    alice, bob = Client("alice", "mine"), Client("bob", "mine")
    await bench.joined("a", topics=None, regex="mi.*", viewer=alice.viewer)
    await bench.joined("b", topics=None, regex="mi.*", viewer=bob.viewer)
    await bench.clock.advance(_SECONDS)
    before = len(bob.asked)
    group = bench.groups._consumer.loaded["g"].group
    for name, client in (("a", alice), ("b", bob)):
        await bench.beat(name, group.snapshot.members[name].epoch, viewer=client.viewer)
    assert len(bob.asked) == before + 1


async def test_a_member_that_another_client_speaks_for_gets_what_that_one_may_see() -> None:
    bench = bench_of(mine=1, yours=1)
    alice, bob = Client("alice", "mine"), Client("bob", "yours")
    beat = await bench.joined(topics=None, regex=".*", viewer=alice.viewer)
    beat = await bench.beat("m", beat.epoch, viewer=bob.viewer, owned=beat.assignment)
    assert "mine" not in bench.topics_of(beat)


async def test_what_an_authorizer_hides_counts_for_members_that_were_there_before_it() -> None:
    bench, alice = bench_of(mine=1, other=1), Client("alice", "mine")
    beat = await bench.joined(topics=None, regex=".*", viewer=ALL_CLIENTS)
    assert bench.topics_of(beat) == {"mine", "other"}
    bench = bench.restarted()
    beat = await bench.beat("m", beat.epoch, viewer=alice.viewer, owned=beat.assignment)
    assert bench.topics_of(beat) == {"mine"}


async def test_a_restart_keeps_what_each_client_sees() -> None:
    bench, alice = bench_of(mine=1, other=1), Client("alice", "mine")
    beat = await bench.joined(topics=None, regex=".*", viewer=alice.viewer)
    bench = bench.restarted()
    again = await bench.beat("m", beat.epoch, viewer=alice.viewer)
    assert (again.epoch, again.assignment) == (beat.epoch, None)


async def test_topics_that_are_gone_are_lost_to_all_at_once() -> None:
    bench = bench_of(mine=1, more=1)
    alice, bob = Client("alice", "m"), Client("bob", "m")
    await bench.joined("a", topics=None, regex="m.*", viewer=alice.viewer)
    await bench.joined("b", topics=None, regex="m.*", viewer=bob.viewer)
    del bench.topics.here["more"]
    await bench.clock.advance(_SECONDS)
    group = bench.groups._consumer.loaded["g"].group
    await bench.beat("a", group.snapshot.members["a"].epoch, viewer=alice.viewer)
    assert all(names == {"mine"} for names in group.snapshot.view.resolved.values())


async def test_while_rights_are_not_known_a_member_that_joins_tries_again_and_others_stay_as_they_are() -> None:
    bench, alice = bench_of(mine=1), Client("alice", "mine")
    beat = await bench.joined(topics=None, regex=".*", viewer=alice.viewer)
    alice.refuses = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
    joins = bench.join("n", topics=None, regex=".*", viewer=alice.viewer)
    assert await error_code(joins) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    await bench.clock.advance(_SECONDS)
    assert (await bench.beat("m", beat.epoch, viewer=alice.viewer)).assignment is None


async def test_hidden_topics_do_not_count_for_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_patterns, "MAX_MATCHES", 2)
    bench, alice = bench_of(mine=1, other1=1, other2=1, other3=1), Client("alice", "mine")
    beat = await bench.joined(topics=None, regex=".*", viewer=alice.viewer)
    assert bench.topics_of(beat) == {"mine"}
    alice.prefixes = ("mine", "other")
    joins = bench.join("n", topics=None, regex=".+", viewer=alice.viewer)
    assert await error_code(joins) == ErrorCode.GROUP_MAX_SIZE_REACHED


async def test_a_name_is_asked_about_once_for_all_patterns() -> None:
    bench, alice = bench_of(mine=1, other=1), Client("alice", "mine")
    await bench.joined("a", topics=None, regex=".*", viewer=alice.viewer)
    alice.asked.clear()
    await bench.joined("b", topics=None, regex=".+", viewer=alice.viewer)
    assert sorted(name for names in alice.asked for name in names) == ["mine", "other"]
