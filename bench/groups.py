"""Consumer groups of three members each on real sockets, heartbeating and committing, in this process: JSON at the end.

Run by `make bench`; by hand: `python -m bench.groups --bootstrap 127.0.0.1:9092 --topic t --groups 1000 --rate 5000
--seconds 20`, where the topic has three partitions.
"""

import argparse
import asyncio
import json
import struct
import time

from bench import wire
from bench.measure import percentile
from bridge.apis import heartbeat, join_group, offset_commit, sync_group

_MEMBERS = 3
_HEARTBEAT_SECONDS = 3.0  # Kafka's default
_SESSION_MS = 45_000
_FORMING = 25  # groups formed side by side
_CROWD = 64  # committers of the phase without a rate
_JOIN, _SYNC, _HEARTBEAT, _COMMIT = 3, 2, 2, 5  # versions: JoinGroup before new members join twice (KIP-394)
_SENTINEL = struct.pack(">q", 0x1122334455667788)


class Member:
    """One member with a connection of its own."""

    def __init__(self, group: str, number: int, topic: str) -> None:
        self._group = group
        self._number = number
        self._topic = topic
        self.committed = 0
        self._client: wire.Client
        self._heartbeat = self._commit = b""
        self.latencies: list[float] = []

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

    async def beat(self, until: float, delay: float) -> None:
        """Heartbeats until the end; how long each took."""
        await asyncio.sleep(delay)
        while (start := time.perf_counter()) < until:
            body = bytes(await self._client.exchange(self._heartbeat))
            self.latencies.append(time.perf_counter() - start)
            if body[4:6] != b"\0\0":
                raise ValueError(f"a heartbeat was answered with error {body[4:6].hex()}")
            await asyncio.sleep(max(0.0, start + _HEARTBEAT_SECONDS - time.perf_counter()))

    async def commit(self) -> None:
        """One commit of one offset."""
        self.committed += 1
        body = bytes(await self._client.exchange(self._commit.replace(_SENTINEL, struct.pack(">q", self.committed))))
        if body[-2:] != b"\0\0":
            raise ValueError(f"a commit was answered with error {body[-2:].hex()}")

    def close(self) -> None:
        """Hang up."""
        self._client.close()


async def at_rate(members: list[Member], rate: float, seconds: float) -> tuple[float, list[float]]:
    """Commits begun at a fixed rate, whoever is slow; how many a second were answered, and how long each took."""
    latencies: list[float] = []

    async def one(member: Member) -> None:
        begun = time.perf_counter()
        await member.commit()
        latencies.append(time.perf_counter() - begun)

    start = time.perf_counter()
    async with asyncio.TaskGroup() as commits:
        for number in range(int(rate * seconds)):
            early = start + number / rate - time.perf_counter()
            if early > 0.001:
                await asyncio.sleep(early)
            commits.create_task(one(members[number % len(members)]))
    return len(latencies) / (time.perf_counter() - start), latencies


async def as_fast(members: list[Member], seconds: float) -> float:
    """Commits a second of so many committers, each one after another."""
    until = time.perf_counter() + seconds
    done = 0

    async def committer(first: int) -> None:
        nonlocal done
        at = first
        while time.perf_counter() < until:
            await members[at % len(members)].commit()
            done += 1
            at += _CROWD

    start = time.perf_counter()
    await asyncio.gather(*(committer(first) for first in range(_CROWD)))
    return done / (time.perf_counter() - start)


async def main(options: argparse.Namespace) -> dict[str, float]:
    """Form the groups, then both phases."""
    formed_from = time.perf_counter()
    members: list[Member] = []
    for first in range(0, options.groups, _FORMING):
        some = [
            Member(f"group-{group}", number, options.topic)
            for group in range(first, min(first + _FORMING, options.groups))
            for number in range(_MEMBERS)
        ]
        await asyncio.gather(*(member.join(options.bootstrap) for member in some))
        members += some
    formed = time.perf_counter() - formed_from
    until = time.perf_counter() + 2 * options.seconds
    spread = _HEARTBEAT_SECONDS / len(members)
    beating = asyncio.gather(*(member.beat(until, at * spread) for at, member in enumerate(members)))
    rate, latencies = await at_rate(members, options.rate, options.seconds)
    heartbeats = [latency for member in members for latency in member.latencies]
    most = await as_fast(members, options.seconds)
    await beating
    commits = sum(member.committed for member in members)
    for member in members:
        member.close()
    return {
        "formed_seconds": formed,
        "commit_rate": rate,
        "commit_p50": percentile(latencies, 50) * 1000,
        "commit_p99": percentile(latencies, 99) * 1000,
        "commits": commits,
        "heartbeats": sum(len(member.latencies) for member in members),
        "heartbeat_p50": percentile(heartbeats, 50) * 1000,
        "heartbeat_p99": percentile(heartbeats, 99) * 1000,
        "most_commits": most,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--groups", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    print(json.dumps(wire.run(main(parser.parse_args()))))
