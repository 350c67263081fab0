"""Consumer groups of three members each on real sockets, heartbeating and committing, in this process: JSON at the end.

Run by `make bench`; by hand: `python -m bench.groups --bootstrap 127.0.0.1:9092 --topic t --groups 1000 --rate 5000
--seconds 20`, where the topic has three partitions.
"""

import argparse
import asyncio
import json
import struct
import time
from collections.abc import Callable
from functools import partial

from bench import wire
from bench.measure import percentile
from bridge.apis import heartbeat, join_group, offset_commit, sync_group
from bridge.kafka.primitives import Buffer

_MEMBERS = 3
_HEARTBEAT_SECONDS = 3.0  # Kafka's default
_SESSION_MS = 45_000
_FORMING = 25  # groups formed side by side
_CROWD = 200  # committers of the phase without a rate
_TICK = 0.001  # seconds between looks at what is due
_JOIN, _SYNC, _HEARTBEAT, _COMMIT = 3, 2, 2, 5  # versions: JoinGroup before new members join twice (KIP-394)
_SENTINEL = struct.pack(">q", 0x1122334455667788)


class Member:
    """One member with a connection of its own."""

    def __init__(self, group: str, number: int, topic: str, over: "asyncio.Future[None]") -> None:
        self._group = group
        self._number = number
        self._topic = topic
        self._over = over
        self._next = 0
        self._client: wire.Client
        self._heartbeat = self._commit = b""
        self.beats: list[float] = []  # seconds each took
        self.commits: list[float] = []

    async def join(self, bootstrap: str) -> None:
        """Become a member of the group's first generation."""
        self._client = await wire.Client.connect(bootstrap)
        protocol = join_group.Protocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0")
        member_id, generation = "", -1
        while True:
            request = join_group.Request(
                group_id=self._group, session_timeout_ms=_SESSION_MS, rebalance_timeout_ms=_SESSION_MS,
                member_id=member_id, protocol_type="consumer", protocols=[protocol],
            )  # fmt: skip
            body = await self._client.exchange(wire.request(join_group.API, _JOIN, request))
            joined = wire.response(join_group.API, _JOIN, body)
            member_id, generation = joined.member_id, joined.generation_id
            if joined.error_code or (joined.leader == member_id and len(joined.members) < _MEMBERS):
                await asyncio.sleep(0.1)
                continue
            assignments = [sync_group.Assignment(member_id=one.member_id, assignment=b"x") for one in joined.members]
            sync = sync_group.Request(
                group_id=self._group, generation_id=generation, member_id=member_id, assignments=assignments
            )
            synced = wire.response(
                sync_group.API, _SYNC, await self._client.exchange(wire.request(sync_group.API, _SYNC, sync))
            )
            if not synced.error_code:
                break
        self._prepare(member_id, generation)

    def _prepare(self, member_id: str, generation: int) -> None:
        alive = heartbeat.Request(group_id=self._group, generation_id=generation, member_id=member_id)
        self._heartbeat = wire.request(heartbeat.API, _HEARTBEAT, alive)
        (sentinel,) = struct.unpack(">q", _SENTINEL)
        partition = offset_commit.RequestPartition(
            partition_index=self._number, committed_offset=sentinel, committed_metadata=""
        )
        commit = offset_commit.Request(
            group_id=self._group, generation_id_or_member_epoch=generation, member_id=member_id,
            topics=[offset_commit.RequestTopic(name=self._topic, partitions=[partition])],
        )  # fmt: skip
        self._commit = wire.request(offset_commit.API, _COMMIT, commit)

    def beat(self, due: float) -> None:
        """One heartbeat."""
        self._client.send(self._heartbeat, partial(self._answered, due, self.beats, slice(4, 6), None))

    def commit(self, due: float, then: Callable[[], None] | None = None) -> None:
        """One commit of one offset."""
        self._next += 1
        frame = self._commit.replace(_SENTINEL, struct.pack(">q", self._next))
        self._client.send(frame, partial(self._answered, due, self.commits, slice(-2, None), then))

    def _answered(
        self, due: float, latencies: list[float], error: slice, then: Callable[[], None] | None, body: Buffer | None
    ) -> None:
        if body is None or bytes(body[error]) != b"\0\0":
            if not self._over.done():
                told = "a hang-up" if body is None else f"error {bytes(body[error]).hex()}"
                self._over.set_exception(ValueError(f"a member's request was answered with {told}"))
            return
        latencies.append(time.perf_counter() - due)
        if then is not None:
            then()

    def close(self) -> None:
        """Hang up."""
        self._client.close()


async def paced(rate: float, seconds: float, act: Callable[[int, float], None]) -> None:
    """Act so often a second, with its number and when it was due, however late it is."""
    start = time.perf_counter()
    number = 0
    total = int(rate * seconds)
    while number < total:
        due = (time.perf_counter() - start) * rate
        while number < min(due, total):
            act(number, start + number / rate)
            number += 1
        await asyncio.sleep(_TICK)


async def as_fast(members: list[Member], seconds: float) -> float:
    """Commits a second of so many committers, each one after another."""
    start = time.perf_counter()
    done = 0
    left = _CROWD
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def go_on(at: int) -> None:
        nonlocal done, left
        now = time.perf_counter()
        if now < start + seconds:
            done += 1
            members[at % len(members)].commit(now, partial(go_on, at + _CROWD))
            return
        left -= 1
        if not left:
            over.set_result(None)

    for first in range(_CROWD):
        go_on(first)
    await over
    return done / (time.perf_counter() - start)


async def form(options: argparse.Namespace, over: "asyncio.Future[None]") -> list[Member]:
    """All groups, so many side by side."""
    members: list[Member] = []
    for first in range(0, options.groups, _FORMING):
        some = [
            Member(f"group-{group}", number, options.topic, over)
            for group in range(first, min(first + _FORMING, options.groups))
            for number in range(_MEMBERS)
        ]
        await asyncio.gather(*(member.join(options.bootstrap) for member in some))
        members += some
    return members


class Phase:
    """Heartbeats of all members, each at its time, beside commits; and how long both took."""

    def __init__(self, members: list[Member], seconds: float) -> None:
        self._members = members
        self._seconds = seconds
        self.beats: list[float] = []
        self.commits: list[float] = []

    async def run(self, rate: float) -> float:
        """Commits at this rate, none at 0; how many a second were answered."""
        members = self._members
        for member in members:
            member.beats, member.commits = self.beats, self.commits
        total = int(rate * self._seconds)
        answered = asyncio.Event()

        def beat(number: int, due: float) -> None:
            members[number % len(members)].beat(due)

        def commit(number: int, due: float) -> None:
            members[number % len(members)].commit(due, one_answered)

        def one_answered() -> None:
            if len(self.commits) == total:
                answered.set()

        start = time.perf_counter()
        await asyncio.gather(
            paced(len(members) / _HEARTBEAT_SECONDS, self._seconds, beat), paced(rate, self._seconds, commit)
        )
        if total:
            await answered.wait()
        return total / (time.perf_counter() - start)


async def load(options: argparse.Namespace, over: "asyncio.Future[None]") -> dict[str, float]:
    """Form the groups, then all phases."""
    formed_from = time.perf_counter()
    members = await form(options, over)
    formed = time.perf_counter() - formed_from
    warmed, alone, beside = (Phase(members, options.seconds) for _ in range(3))
    await warmed.run(options.rate)  # Pulsar's code for these topics is compiled meanwhile
    await alone.run(0)
    begun, used = time.perf_counter(), time.process_time()
    rate = await beside.run(options.rate)
    cores = (time.process_time() - used) / (time.perf_counter() - begun)
    most = await as_fast(members, options.seconds)
    for member in members:
        member.close()
    return {
        "formed_seconds": formed,
        "alone_p50": percentile(alone.beats, 50) * 1000,
        "alone_p99": percentile(alone.beats, 99) * 1000,
        "commit_rate": rate,
        "commit_p50": percentile(beside.commits, 50) * 1000,
        "commit_p99": percentile(beside.commits, 99) * 1000,
        "heartbeat_p50": percentile(beside.beats, 50) * 1000,
        "heartbeat_p99": percentile(beside.beats, 99) * 1000,
        "cores": cores,
        "most_commits": most,
    }


async def main(options: argparse.Namespace) -> dict[str, float]:
    """The load, ended by the first answer that is an error."""
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    found = asyncio.ensure_future(load(options, over))
    await asyncio.wait((found, over), return_when=asyncio.FIRST_COMPLETED)
    if over.done():
        over.result()
    return found.result()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--groups", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    print(json.dumps(wire.run(main(parser.parse_args()))))
