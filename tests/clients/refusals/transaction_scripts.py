"""Transactions step by step: what each request of a sequence is told, of two producers and a topic of their own.

Positions are told only against each other: Kafka's markers take offsets, the bridge has none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from bridge.apis import consumer_group_heartbeat, create_topics, delete_records
from bridge.kafka.error_codes import ErrorCode
from tests.apis.wire import unique
from tests.clients.model import attempts
from tests.clients.refusals import consumer_groups, records, topics
from tests.clients.refusals.case import World
from tests.clients.refusals.transaction_states import first
from tests.clients.transactions.raw import READ_COMMITTED, READ_UNCOMMITTED, RawProducer
from tests.faults.processes import let_pass

SHORT_MS: Final = 1_000
"""A time-out that is waited for; Kafka looks every ten seconds."""
_LOOK_EVERY: Final = 0.1
_EARLIEST, _MAX_TIMESTAMP = -2, -3
MEMBER: Final = "member"
_TIME: Final = 1_700_000_000_000
"""Of every record."""


class Stage:
    """The producers `p` and `q`, which share a topic and a group, and the world."""

    def __init__(self, world: World, timeout_ms: int) -> None:
        self.world = world
        self.topic = unique("transactions")
        (made,) = world.ask(create_topics.API, topics.create(self.topic, num_partitions=2)).topics
        assert made.error_code == 0, made.error_message
        self.p = RawProducer(world.address, self.topic, timeout_ms=timeout_ms)
        self.q = RawProducer(world.address, self.topic)
        self.q.group = self.p.group
        self.p.await_leaders(2)

    def close(self) -> None:
        """Hang up."""
        self.p.close()
        self.q.close()


Step = Callable[[Stage], object]


def p(ask: Callable[[RawProducer], object]) -> Step:
    """A step of the first producer."""
    return lambda stage: ask(stage.p)


def q(ask: Callable[[RawProducer], object]) -> Step:
    """A step of the second one."""
    return lambda stage: ask(stage.q)


@dataclass(frozen=True, slots=True)
class Script:
    """Requests one after the other: a `Case` of several."""

    id: str
    steps: tuple[Step, ...]
    kafka: str
    """What each is told, ` | ` between them."""
    ours: str = ""
    why: str = ""
    timeout_ms: int = 60_000

    def told(self, world: World) -> str:
        """What the server says."""
        stage = Stage(world, self.timeout_ms)
        try:
            return " | ".join(str(step(stage)) for step in self.steps)
        finally:
            stage.close()


def of_two_epochs(version: int) -> Step:
    """A Produce of batches of two epochs."""
    return p(lambda one: one.write_of_two_epochs(version))


def held(stage: Stage) -> str:
    """Whether read_committed consumers have to wait for something in partition 0."""
    return "held" if stage.p.held() else "free"


def held_in(version: int) -> Step:
    """By how much, in a version of ListOffsets."""
    return lambda stage: stage.p.held(version=version)


def look_up(level: int, time: int) -> Step:
    """ListOffsets of partition 0 by a time, or by what stands for one."""
    return lambda stage: stage.p.offset(level, time)


def offsets(stage: Stage) -> str:
    """The group's offset, and the stable one."""
    return f"{stage.p.committed(stable=False)}/{stage.p.committed(stable=True)}"


def successor(stage: Stage) -> str:
    """The second producer comes with the first one's transactional id: its epoch against the first one's.

    Kafka refuses it until it has aborted what the first one had open.
    """
    stage.q.transactional_id = stage.p.transactional_id
    stage.q.producer_id, stage.q.epoch = stage.p.producer_id, stage.p.epoch
    for _ in attempts("the abort"):
        told = stage.q.init()
        if told != ErrorCode.CONCURRENT_TRANSACTIONS.name:
            break
    return told


def timed_out(stage: Stage) -> str:
    """Wait until the time-out of what `p` has open has been noticed."""
    for _ in attempts("the time-out"):
        state = stage.p.settled().transaction_state
        if state != "Ongoing":
            break
        let_pass(_LOOK_EVERY)
    return str(state)


def at_rest(stage: Stage) -> str:
    """The state of `p`, when nothing is under way."""
    return str(stage.p.settled().transaction_state)


def cut(stage: Stage) -> str:
    """DeleteRecords of the first record."""
    (topic,) = stage.world.ask(delete_records.API, records.cut(stage.topic, 1)).topics
    return ErrorCode(topic.partitions[0].error_code).name


def of_group(group: str) -> Step:
    """From now on `p` commits offsets of this group of the world's."""

    def step(stage: Stage) -> str:
        stage.p.group = getattr(stage.world, group) if group else ""
        return group or "none"

    return step


def join_new(stage: Stage) -> int:
    """A member of the new protocol joins the group: its epoch."""
    request = consumer_groups.beat(stage.p.group, MEMBER, subscribed_topic_names=[stage.topic])
    for _ in attempts("the group of the new protocol"):
        answer = stage.world.ask(consumer_group_heartbeat.API, request)
        if answer.error_code == ErrorCode.NONE:
            break
    return int(answer.member_epoch)


def commit_as(generation: int = 0, member: str | None = None, version: int = 4) -> Step:
    """TxnOffsetCommit as the world's member, but for what is said; `generation` is added."""

    def step(stage: Stage) -> str:
        name = stage.world.member if member is None else member
        return stage.p.commit_offset(version=version, generation=stage.world.generation + generation, member=name)

    return step


def listed(**filters: Any) -> Step:
    """How ListTransactions shows `p` by these filters; a function makes one of the producer."""
    return lambda stage: stage.p.listed(
        **{name: value(stage.p) if callable(value) else value for name, value in filters.items()}
    )


INIT = p(first)
ADD, ADD_GROUP = p(lambda p: p.add()), p(lambda p: p.add_group())
WRITE = p(lambda p: p.write())
WRITE_2 = p(lambda p: p.write(version=12))
COMMIT, ABORT = p(lambda p: p.end(True)), p(lambda p: p.end(False))
COMMIT_2, ABORT_2 = p(lambda p: p.end(True, 5)), p(lambda p: p.end(False, 5))
NAMED = p(lambda p: p.init(named=True))
Q_OPEN = (q(first), q(lambda q: q.add()), q(lambda q: q.write()))

_SCRIPTS = [
    Script("the last stable offset waits for a commit",
           (INIT, ADD, held, WRITE, held, WRITE, COMMIT, at_rest, held),
           "NONE +1 | NONE | free | NONE | held | NONE | NONE | CompleteCommit | free"),
    Script("the last stable offset waits for an abort",
           (INIT, ADD, WRITE, held, ABORT, at_rest, held),
           "NONE +1 | NONE | NONE | held | NONE | CompleteAbort | free"),
    Script("the last stable offset, protocol 2, commit",
           (INIT, WRITE_2, held, COMMIT_2, at_rest, held),
           "NONE +1 | NONE | held | NONE +1 | CompleteCommit | free"),
    Script("the last stable offset, protocol 2, abort",
           (INIT, WRITE_2, held, ABORT_2, at_rest, held),
           "NONE +1 | NONE | held | NONE +1 | CompleteAbort | free"),
    Script("the first open transaction holds what others committed behind it",
           (INIT, ADD, WRITE, *Q_OPEN, q(lambda q: q.end(True)), q(lambda q: q.settled().transaction_state), held,
            COMMIT, at_rest, held),
           "NONE +1 | NONE | NONE | NONE +1 | NONE | NONE | NONE | CompleteCommit | held | NONE | "
           "CompleteCommit | free"),
    Script("a partition that nothing was written to holds nothing",
           (INIT, ADD, held, ABORT, at_rest, held),
           "NONE +1 | NONE | free | NONE | CompleteAbort | free"),
    Script("how much is held, in every version",
           (INIT, ADD, WRITE, WRITE, *(held_in(version) for version in range(2, 11))),
           "NONE +1 | NONE | NONE | NONE | 2 | 2 | 2 | 2 | 2 | 2 | 2 | 2 | 2"),
    Script("look-ups while a transaction is open",
           (INIT, ADD, WRITE,
            *(look_up(READ_UNCOMMITTED, time) for time in (_TIME, _EARLIEST, _MAX_TIMESTAMP)),
            *(look_up(READ_COMMITTED, time) for time in (_TIME, _EARLIEST, _MAX_TIMESTAMP)),
            COMMIT, at_rest, look_up(READ_COMMITTED, _TIME),
            look_up(READ_COMMITTED, _MAX_TIMESTAMP)),
           "NONE +1 | NONE | NONE | 0 | 0 | 0 | -1 | 0 | -1 | NONE | CompleteCommit | 0 | 1"),
    Script("look-ups find what was aborted, too",
           (INIT, ADD, WRITE, ABORT, at_rest, look_up(READ_COMMITTED, _TIME),
            look_up(READ_COMMITTED, _MAX_TIMESTAMP)),
           "NONE +1 | NONE | NONE | NONE | CompleteAbort | 0 | 1"),
    Script("records of an open transaction are deleted",
           (INIT, ADD, WRITE, WRITE, cut, p(lambda p: p.held()), look_up(READ_COMMITTED, _EARLIEST),
            COMMIT, at_rest, held),
           "NONE +1 | NONE | NONE | NONE | NONE | 1 | 1 | NONE | CompleteCommit | free"),
    Script("who has a transaction open",
           (INIT, ADD, p(lambda p: p.first_open()), WRITE, p(lambda p: p.first_open()), COMMIT, at_rest,
            p(lambda p: p.first_open())),
           "NONE +1 | NONE | -1 | NONE | 0 | NONE | CompleteCommit | -1"),
    Script("offsets, committed",
           (INIT, offsets, ADD_GROUP, offsets, p(lambda p: p.commit_offset()), offsets,
            p(lambda p: p.committed(stable=True, version=7)), COMMIT, at_rest, offsets),
           "NONE +1 | -1/-1 | NONE | -1/-1 | NONE | -1/UNSTABLE_OFFSET_COMMIT | UNSTABLE_OFFSET_COMMIT | "
           "NONE | CompleteCommit | 5/5"),
    Script("offsets, aborted",
           (INIT, ADD_GROUP, p(lambda p: p.commit_offset()), offsets, ABORT, at_rest, offsets),
           "NONE +1 | NONE | NONE | -1/UNSTABLE_OFFSET_COMMIT | NONE | CompleteAbort | -1/-1"),
    Script("offsets, protocol 2, committed",
           (INIT, p(lambda p: p.commit_offset(version=5)), offsets, COMMIT_2, at_rest, offsets),
           "NONE +1 | NONE | -1/UNSTABLE_OFFSET_COMMIT | NONE +1 | CompleteCommit | 5/5"),
    Script("offsets, protocol 2, aborted",
           (INIT, p(lambda p: p.commit_offset(version=5)), offsets, ABORT_2, at_rest, offsets),
           "NONE +1 | NONE | -1/UNSTABLE_OFFSET_COMMIT | NONE +1 | CompleteAbort | -1/-1"),
    Script("offsets, aborted, over plain ones",
           (INIT, p(lambda p: p.commit_plainly(3)), ADD_GROUP, p(lambda p: p.commit_offset()), offsets, ABORT,
            at_rest, offsets),
           "NONE +1 | NONE | NONE | NONE | 3/UNSTABLE_OFFSET_COMMIT | NONE | CompleteAbort | 3/3"),
    Script("a plain offset that came later stays",
           (INIT, ADD_GROUP, p(lambda p: p.commit_offset(5)), p(lambda p: p.commit_plainly(4)), offsets, COMMIT,
            at_rest, offsets),
           "NONE +1 | NONE | NONE | NONE | 4/UNSTABLE_OFFSET_COMMIT | NONE | CompleteCommit | 4/4"),
    Script("the last offset of a transaction counts",
           (INIT, ADD_GROUP, p(lambda p: p.commit_offset(5)), p(lambda p: p.commit_offset(3)), COMMIT, at_rest,
            offsets),
           "NONE +1 | NONE | NONE | NONE | NONE | CompleteCommit | 3/3"),
    Script("of two transactions the offset that came later counts, whichever ends first",
           (INIT, ADD_GROUP, p(lambda p: p.commit_offset(5)), q(first), q(lambda q: q.add_group()),
            q(lambda q: q.commit_offset(7)), q(lambda q: q.end(True)), q(lambda q: q.settled().transaction_state),
            offsets, COMMIT, at_rest, offsets),
           "NONE +1 | NONE | NONE | NONE +1 | NONE | NONE | NONE | CompleteCommit | 7/UNSTABLE_OFFSET_COMMIT | "
           "NONE | CompleteCommit | 7/7"),
    Script("of two transactions the offset of the other is left when one aborts",
           (INIT, ADD_GROUP, p(lambda p: p.commit_offset(5)), q(first), q(lambda q: q.add_group()),
            q(lambda q: q.commit_offset(7)), q(lambda q: q.end(False)), q(lambda q: q.settled().transaction_state),
            offsets, COMMIT, at_rest, offsets),
           "NONE +1 | NONE | NONE | NONE +1 | NONE | NONE | NONE | CompleteAbort | -1/UNSTABLE_OFFSET_COMMIT | "
           "NONE | CompleteCommit | 5/5"),
    Script("fenced by a successor",
           (INIT, ADD, WRITE, successor, at_rest, held, WRITE, ADD, ADD_GROUP, COMMIT, ABORT,
            p(lambda p: p.commit_offset()), NAMED, q(lambda q: q.add()), q(lambda q: q.write()),
            q(lambda q: q.end(True)), at_rest, held),
           "NONE +1 | NONE | NONE | NONE +2 | Empty | free | INVALID_PRODUCER_EPOCH | PRODUCER_FENCED | "
           "PRODUCER_FENCED | PRODUCER_FENCED | PRODUCER_FENCED | INVALID_PRODUCER_EPOCH | PRODUCER_FENCED | "
           "NONE | NONE | NONE | CompleteCommit | free"),
    Script("fenced by a successor, protocol 2",
           (INIT, WRITE_2, successor, at_rest, held, WRITE_2, COMMIT_2, ABORT_2,
            p(lambda p: p.commit_offset(version=5)), NAMED, q(lambda q: q.write(version=12)),
            q(lambda q: q.end(True, 5)), at_rest, held),
           "NONE +1 | NONE | NONE +2 | Empty | free | INVALID_PRODUCER_EPOCH | PRODUCER_FENCED | "
           "PRODUCER_FENCED | INVALID_PRODUCER_EPOCH | PRODUCER_FENCED | NONE | NONE +1 | CompleteCommit | free"),
    Script("pending offsets of who is fenced",
           (INIT, ADD_GROUP, p(lambda p: p.commit_offset()), offsets, successor, at_rest, offsets),
           "NONE +1 | NONE | NONE | -1/UNSTABLE_OFFSET_COMMIT | NONE +2 | Empty | -1/-1"),
    Script("timed out",
           (INIT, ADD, WRITE, held, timed_out, held, WRITE, ADD, ADD_GROUP, COMMIT, ABORT, NAMED),
           "NONE +1 | NONE | NONE | held | CompleteAbort | free | INVALID_PRODUCER_EPOCH | PRODUCER_FENCED | "
           "PRODUCER_FENCED | PRODUCER_FENCED | PRODUCER_FENCED | NONE +1", timeout_ms=SHORT_MS),
    Script("timed out, protocol 2, which aborts",
           (INIT, WRITE_2, held, timed_out, held, WRITE_2, ABORT_2, WRITE_2),
           "NONE +1 | NONE | held | CompleteAbort | free | INVALID_PRODUCER_EPOCH | NONE +1 | NONE",
           timeout_ms=SHORT_MS),
    Script("timed out, protocol 2, which commits",
           (INIT, WRITE_2, timed_out, COMMIT_2, NAMED, WRITE_2),
           "NONE +1 | NONE | CompleteAbort | INVALID_TXN_STATE | NONE +1 | NONE", timeout_ms=SHORT_MS),
    Script("timed out, with offsets",
           (INIT, ADD_GROUP, p(lambda p: p.commit_offset()), offsets, timed_out, offsets),
           "NONE +1 | NONE | NONE | -1/UNSTABLE_OFFSET_COMMIT | CompleteAbort | -1/-1", timeout_ms=SHORT_MS),
    Script("sequences go on from one transaction of protocol 1 to the next",
           (INIT, ADD, WRITE, COMMIT, at_rest, ADD, WRITE, p(lambda p: p.write(after=-1)),
            p(lambda p: p.write(after=3)), COMMIT),
           "NONE +1 | NONE | NONE | NONE | CompleteCommit | NONE | NONE | NONE | "
           "OUT_OF_ORDER_SEQUENCE_NUMBER | NONE"),
    Script("sequences go on after an abort by protocol 1",
           (INIT, ADD, WRITE, ABORT, at_rest, ADD, WRITE, COMMIT),
           "NONE +1 | NONE | NONE | NONE | CompleteAbort | NONE | NONE | NONE"),
    Script("sequences start over with each transaction of protocol 2",
           (INIT, WRITE_2, WRITE_2, COMMIT_2, at_rest, WRITE_2, p(lambda p: p.write(version=12, after=-1)),
            p(lambda p: p.write(version=12, after=3)), COMMIT_2),
           "NONE +1 | NONE | NONE | NONE +1 | CompleteCommit | NONE | NONE | OUT_OF_ORDER_SEQUENCE_NUMBER | "
           "NONE +1"),
    Script("a first sequence that is not 0",
           (INIT, ADD, p(lambda p: p.write(after=4)), p(lambda p: p.write(1, version=12, after=4))),
           "NONE +1 | NONE | NONE | OUT_OF_ORDER_SEQUENCE_NUMBER"),
    Script("the bit and the request's transactional id go together",
           (INIT, ADD, p(lambda p: p.write(named=False)), p(lambda p: p.write(transactional=False, named=True)),
            p(lambda p: p.write(version=12, named=False))),
           "NONE +1 | NONE | TRANSACTIONAL_ID_AUTHORIZATION_FAILED | NONE | "
           "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
    Script("partitions that there are not",
           (INIT, p(lambda p: p.add(9)), at_rest,
            lambda s: s.p.add_all([(s.topic, 0), (s.topic, 9), (s.world.missing, 0)]), at_rest,
            p(lambda p: p.write(9)), p(lambda p: p.write(9, version=12))),
           "NONE +1 | UNKNOWN_TOPIC_OR_PARTITION | Empty | "
           "OPERATION_NOT_ATTEMPTED, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_OR_PARTITION | Empty | "
           "UNKNOWN_TOPIC_OR_PARTITION | UNKNOWN_TOPIC_OR_PARTITION"),
    Script("offsets of members",
           (INIT, of_group("group"), ADD_GROUP, commit_as(), commit_as(1), commit_as(-1),
            commit_as(member="unknown"), commit_as(member=""), commit_as(1, version=3),
            p(lambda p: p.commit_offset()), p(lambda p: p.commit_offset(version=2)), ABORT),
           "NONE +1 | group | NONE | NONE | ILLEGAL_GENERATION | ILLEGAL_GENERATION | UNKNOWN_MEMBER_ID | "
           "UNKNOWN_MEMBER_ID | ILLEGAL_GENERATION | NONE | NONE | NONE"),
    Script("offsets of members of a group that there is not",
           (INIT, ADD_GROUP, p(lambda p: p.commit_offset(generation=3)),
            p(lambda p: p.commit_offset(generation=3, member="unknown")),
            p(lambda p: p.commit_offset(generation=-1, member="unknown")), ABORT),
           "NONE +1 | NONE | ILLEGAL_GENERATION | ILLEGAL_GENERATION | NONE | NONE"),
    Script("offsets of members of the new protocol",
           (INIT, join_new, ADD_GROUP, p(lambda p: p.commit_offset(generation=1, member=MEMBER)),
            p(lambda p: p.commit_offset(generation=99, member=MEMBER)),
            p(lambda p: p.commit_offset(generation=0, member=MEMBER)),
            p(lambda p: p.commit_offset(generation=1, member="unknown")), p(lambda p: p.commit_offset()), ABORT),
           "NONE +1 | 1 | NONE | NONE | ILLEGAL_GENERATION | ILLEGAL_GENERATION | UNKNOWN_MEMBER_ID | NONE | "
           "NONE"),
    Script("offsets of no group",
           (INIT, of_group(""), ADD_GROUP, p(lambda p: p.commit_offset()), at_rest),
           "NONE +1 | none | NONE | INVALID_GROUP_ID | Ongoing"),
    Script("listed while it is open",
           (INIT, listed(), ADD, listed(), listed(version=0), listed(state_filters=["Ongoing"]),
            listed(state_filters=["Empty"]), listed(producer_id_filters=lambda p: [p.producer_id]),
            listed(producer_id_filters=lambda p: [p.producer_id + 1]), listed(duration_filter=0),
            listed(duration_filter=1 << 40), listed(transactional_id_pattern="raw-.*"),
            listed(transactional_id_pattern="raw"), ABORT, at_rest, listed(), listed(duration_filter=0)),
           "NONE +1 | Empty | NONE | Ongoing | Ongoing | Ongoing | not listed | Ongoing | not listed | "
           "Ongoing | not listed | Ongoing | not listed | NONE | CompleteAbort | CompleteAbort | CompleteAbort"),
    Script("described while it is open",
           (p(lambda p: p.described().transaction_state), INIT, p(lambda p: p.described().topics), ADD,
            lambda s: [(one.topic == s.topic, one.partitions) for one in s.p.described().topics],
            p(lambda p: p.described().transaction_timeout_ms),
            p(lambda p: p.described().transaction_start_time_ms > 0), COMMIT, at_rest,
            p(lambda p: p.described().topics)),
           " | NONE +1 | [] | NONE | [(True, [0])] | 12345 | True | NONE | CompleteCommit | []", timeout_ms=12_345),
    *(Script(f"batches of two epochs in one Produce {version}",
             (p(RawProducer.init), p(RawProducer.init), p(RawProducer.add), p(lambda one: one.add(1)),
              of_two_epochs(version)),
             "NONE new id 0 | NONE +1 | NONE | NONE | INVALID_PRODUCER_ID_MAPPING, INVALID_PRODUCER_ID_MAPPING")
      for version in (11, 12)),
    Script("a time-out of 0",
           (p(lambda p: p.init()),),
           "INVALID_TRANSACTION_TIMEOUT", timeout_ms=0),
    Script("a time-out below 0",
           (p(lambda p: p.init()),),
           "INVALID_TRANSACTION_TIMEOUT", timeout_ms=-1),
    Script("the longest time-out",
           (p(lambda p: p.init()),),
           "NONE new id 0", timeout_ms=900_000),
    Script("a longer time-out",
           (p(lambda p: p.init()),),
           "INVALID_TRANSACTION_TIMEOUT", timeout_ms=900_001),
]  # fmt: skip


_NO_MARKERS = "a commit takes no offset"
_ONE_EPOCH = "an InitProducerId begins one epoch, whatever it aborts"

DIFFERENCES = {
    "look-ups while a transaction is open": (
        "NONE +1 | NONE | NONE | 0 | 0 | 0 | -1 | 0 | -1 | NONE | CompleteCommit | 0 | 0", _NO_MARKERS),
    "look-ups find what was aborted, too": ("NONE +1 | NONE | NONE | NONE | CompleteAbort | 0 | 0", _NO_MARKERS),
    "fenced by a successor": (
        "NONE +1 | NONE | NONE | NONE +1 | Empty | free | INVALID_PRODUCER_EPOCH | PRODUCER_FENCED | PRODUCER_FENCED | "
        "PRODUCER_FENCED | PRODUCER_FENCED | INVALID_PRODUCER_EPOCH | PRODUCER_FENCED | NONE | NONE | NONE | "
        "CompleteCommit | free", _ONE_EPOCH),
    "fenced by a successor, protocol 2": (
        "NONE +1 | NONE | NONE +1 | Empty | free | INVALID_PRODUCER_EPOCH | PRODUCER_FENCED | PRODUCER_FENCED | "
        "INVALID_PRODUCER_EPOCH | PRODUCER_FENCED | NONE | NONE +1 | CompleteCommit | free", _ONE_EPOCH),
    "pending offsets of who is fenced": (
        "NONE +1 | NONE | NONE | -1/UNSTABLE_OFFSET_COMMIT | NONE +1 | Empty | -1/-1", _ONE_EPOCH),
    "a first sequence that is not 0": (
        "NONE +1 | NONE | NONE | TRANSACTION_ABORTABLE", "a client changes the protocol with a new epoch"),
    "the bit and the request's transactional id go together": (
        "NONE +1 | NONE | TRANSACTIONAL_ID_AUTHORIZATION_FAILED | INVALID_TXN_STATE | "
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        "where its transaction is told of a partition, a producer writes in it"),
}  # fmt: skip
"""What the bridge says, and why."""

CASES = [
    replace(one, ours=DIFFERENCES[one.id][0], why=DIFFERENCES[one.id][1]) if one.id in DIFFERENCES else one
    for one in _SCRIPTS
]
