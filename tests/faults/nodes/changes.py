"""What changes while clients work, by one seed: nodes join, leave and are killed; topics come and go.

Each actor has its own random choices, so that a seed gives each the same plan however long its steps take.
"""

from __future__ import annotations

import random
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from bridge.apis import create_partitions, create_topics, delete_topics
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.api import Api
from tests.apis.wire import ask_at
from tests.faults.checker import judge
from tests.faults.clients import ConfluentWriter, Follower, KafkaPythonWriter, Writer, read_cold
from tests.faults.nodes.answers import cluster_at
from tests.faults.nodes.pollers import Pollers
from tests.faults.nodes.topic_watch import Life
from tests.faults.nodes.writers import AioKafkaWriter
from tests.faults.processes import let_pass
from tests.support.nodes import Node, Nodes

FEWEST: Final = 2
"""So many nodes stay up."""
UNTIL_SECONDS = 90.0
_FETCH_WAIT_MS = 5000
RETRIED = {
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.BROKER_NOT_AVAILABLE,
}


@dataclass
class Stage:
    """What all actors share."""

    nodes: Nodes
    pollers: Pollers
    prefix: str
    """Of the names of topics and groups."""
    seed: int
    ended: threading.Event = field(default_factory=threading.Event)
    kept: dict[UUID, Life] = field(default_factory=dict)
    """Topics that live at the end."""
    counts: dict[str, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    _history: list[str] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)

    def choices(self, actor: str) -> random.Random:
        """An actor's own."""
        return random.Random(f"{self.seed} {actor}")

    def count(self, what: str) -> None:
        """One more of these."""
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def time(self) -> str:
        """Seconds since the beginning."""
        return f"{time.monotonic() - self._began:.3f}"

    def note(self, what: str) -> None:
        """Something that was done."""
        with self.lock:
            self._history.append(f"{self.time()} {what}")

    def history(self, of: str) -> str:
        """The last that was done with a topic or group, and to nodes."""
        with self.lock:
            return "\n".join([one for one in self._history if of in one or "= node" in one or "Delete" in one][-30:])

    def bootstrap(self, choices: random.Random) -> str:
        """All addresses in random order, also of nodes that are down."""
        return ",".join(node.kafka for node in choices.sample(self.nodes.all, len(self.nodes.all)))

    def running(self) -> list[Node]:
        """The nodes whose process is there."""
        return [node for node in self.nodes.all if node.is_running]


# ---- nodes -----------------------------------------------------------------------------------------------------------


def change_nodes(stage: Stage, longest_wait: float, changes: int) -> None:
    """Start, stop, kill and restart random nodes, so many times; then all others stop."""
    choices = stage.choices("nodes")
    try:
        for _ in range(changes):
            let_pass(choices.uniform(0.1, longest_wait))
            _change_one(stage, choices.choice(("join", "join", "leave", "kill", "restart", "bounce")), choices.random())
    finally:
        stage.ended.set()


def _change_one(stage: Stage, what: str, which: float) -> None:
    up = stage.running()
    down = [node for node in stage.nodes.all if node not in up]
    if what in ("leave", "kill") and len(up) <= FEWEST:
        what = "join"
    if what == "join" and not down:
        what = "leave"
    among = down if what == "join" else up
    node = among[int(which * len(among))]
    stage.note(f"= node {node.name} {what}")
    if what in ("leave", "bounce"):
        node.stop()
    elif what in ("kill", "restart"):
        node.kill()
    if what in ("join", "restart", "bounce"):
        node.process.launch()  # it may be stopped or killed before it is ready
    stage.count(what)


# ---- requests to any node --------------------------------------------------------------------------------------------


def through_any(
    stage: Stage, choices: random.Random, api: Api, request: Any, code_of: Callable[[Any], int]
) -> tuple[Any, bool]:
    """Ask random nodes until one does it or refuses; and whether an earlier one may have done it."""
    until = time.monotonic() + UNTIL_SECONDS
    is_repeated = False
    while True:
        node = choices.choice(stage.running())
        asked = stage.time()
        try:
            answer = ask_at(node.kafka, api, request)
            code = ErrorCode(code_of(answer))
            stage.note(f"{asked}: {node.name} {api.name} {request}: {code.name}")
            if code not in RETRIED:
                return answer, is_repeated
            is_repeated = True
        except ConnectionRefusedError:
            pass  # it is not up yet
        except (OSError, struct.error) as error:
            stage.note(f"{asked}: {node.name} {api.name} {request}: {error!r}")
            is_repeated = True
        assert time.monotonic() < until, f"no node executes {request}"
        let_pass(0.1)


def create(stage: Stage, choices: random.Random, name: str, partitions: int) -> Life:
    """Create a topic through a random node."""
    wanted = create_topics.RequestTopic(
        name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
    )
    request = create_topics.Request(topics=[wanted])
    answer, is_repeated = through_any(
        stage, choices, create_topics.API, request, lambda answer: answer.topics[0].error_code
    )
    (made,) = answer.topics
    now = time.monotonic()
    topic_id = made.topic_id
    if made.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and is_repeated:
        topic_id = id_of(stage, choices, name)
    else:
        assert made.error_code == ErrorCode.NONE, f"{name} is not created: {made}\n{stage.history(name)}"
    stage.count("created")
    return stage.pollers.topics.created(name, topic_id, partitions, now)


def id_of(stage: Stage, choices: random.Random, name: str) -> UUID:
    """A topic's id, which the node that created it could not say any more."""
    until = time.monotonic() + UNTIL_SECONDS
    while True:
        try:
            if ids := cluster_at(choices.choice(stage.running()).kafka, [name]).ids:
                return next(iter(ids))
        except (OSError, struct.error):
            pass
        assert time.monotonic() < until, f"no node lists {name}"
        let_pass(0.1)


def grow(stage: Stage, choices: random.Random, life: Life) -> None:
    """Give a topic one more partition through a random node."""
    count = life.partitions + 1
    wanted = create_partitions.RequestTopic(name=life.name, count=count, assignments=None)
    request = create_partitions.Request(topics=[wanted], timeout_ms=60_000, validate_only=False)
    answer, is_repeated = through_any(
        stage, choices, create_partitions.API, request, lambda answer: answer.results[0].error_code
    )
    (result,) = answer.results
    done = (ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS) if is_repeated else (ErrorCode.NONE,)
    assert result.error_code in done, f"{life.name} is not grown: {result}\n{stage.history(life.name)}"
    stage.pollers.topics.grown(life, count, time.monotonic())
    stage.count("grown")


def delete(stage: Stage, choices: random.Random, life: Life) -> None:
    """Delete a topic by its name or its id, through a random node."""
    by_name = choices.random() < 0.5
    wanted = delete_topics.RequestTopic(name=life.name) if by_name else delete_topics.RequestTopic(topic_id=life.id)
    request = delete_topics.Request(topics=[wanted], timeout_ms=60_000)
    stage.pollers.topics.deleting(life, time.monotonic())
    stage.note(f"{life.name} is {life.id}, to be deleted")
    answer, is_repeated = through_any(
        stage, choices, delete_topics.API, request, lambda answer: answer.responses[0].error_code
    )
    (result,) = answer.responses
    unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID) if is_repeated else ()
    assert result.error_code in (ErrorCode.NONE, *unknown), (
        f"{life} is not deleted: {result}\n{stage.history(life.name)}"
    )
    stage.pollers.topics.deleted(life, time.monotonic())
    stage.count("deleted")


# ---- topics ----------------------------------------------------------------------------------------------------------


def change_topics(stage: Stage, actor: str) -> None:
    """Topics of a few names live one after the other: each is written, read, and deleted or kept."""
    choices = stage.choices(actor)
    names = [f"{stage.prefix}-{actor}-{number}" for number in range(3)]
    while not stage.ended.is_set() and names:
        name = choices.choice(names)
        life = create(stage, choices, name, choices.randint(1, 4))
        write_and_read(stage, choices, life)
        if choices.random() < 0.3:
            grow(stage, choices, life)
        if len(names) > 1 and choices.random() < 0.1:
            names.remove(name)
            stage.kept[life.id] = life
        else:
            delete(stage, choices, life)


def write_and_read(stage: Stage, choices: random.Random, life: Life) -> None:
    """An idempotent producer and a consumer at work for some seconds: what is acknowledged is read, once, in order."""
    changed = threading.Condition()
    follower = Follower(stage.bootstrap(choices), life.name, life.partitions, changed, _FETCH_WAIT_MS)
    writer = _writer(stage, choices, life, changed)
    writer.per_turn = 3
    try:
        follower.start()
        writer.start()
        let_pass(choices.uniform(0.5, 4))
        writer.finish()
        writer.join(UNTIL_SECONDS)
        if writer.is_alive():
            _check_stuck(stage, writer)
            stage.count("kafka-python without a broker")
        assert not writer.fatal, f"{life}: {type(writer).__name__}: {writer.fatal}"
        last = [max((at for part, at, _ in writer.acks if part == p), default=-1) for p in range(life.partitions)]
        with changed:
            held = changed.wait_for(
                lambda: follower.fatal or all(have > end for have, end in zip(follower.next, last, strict=True)),
                UNTIL_SECONDS,
            )
        assert held and not follower.fatal, f"{life}: read up to {follower.next} of {last}: {follower.fatal}"
        follower.finish()
        cold = read_cold(stage.bootstrap(choices), life.name, last, UNTIL_SECONDS)
        judge([writer], follower, [one.records for one in cold], life.partitions).check()
        stage.count(type(writer).__name__)
    except AssertionError as error:
        raise AssertionError(f"{life}: {type(writer).__name__}: {error}; {follower.errors[:5]}") from error
    finally:
        writer.give_up()
        follower.finish()


def _check_stuck(stage: Stage, writer: Writer) -> None:
    """kafka-python 3.0 finds no broker again when all that it knows have gone: the rest has to come to its end."""
    told = f"{writer.name} acknowledged {len(writer.acks)} of {writer.sent}"
    assert isinstance(writer, KafkaPythonWriter), told
    known = writer.known_brokers()
    assert not known & {node.kafka for node in stage.running()}, f"{told}, and knows of {known}"


def _writer(stage: Stage, choices: random.Random, life: Life, changed: threading.Condition) -> Writer:
    kind, servers = choices.randrange(3), stage.bootstrap(choices)
    if kind == 0:
        return KafkaPythonWriter("w", servers, life.name, life.partitions, changed)
    if kind == 1:
        return AioKafkaWriter("w", servers, life.name, life.partitions, changed)
    return ConfluentWriter("w", servers, life.name, life.partitions, changed, idempotent=True)
