"""kcat as a `Client`: each record is a run of its own, for only so can its headers differ."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.clients.families.kcat_member import KcatMember
from tests.clients.members import Joining, Member
from tests.clients.model import At, Codec, Delivery, Draft, Record, Start, UnknownTopic
from tests.support.kcat import KcatError, run_kcat

KEY_END = b"<\x01key\x02>"
RECORD_END = b"<\x01record\x02>"
DELIVERED = re.compile(r"Message delivered to partition (\d+) \(offset (\d+)\)")
QUERIED = re.compile(r"\[(\d+)\] offset (-?\d+)")
BEGINNING, END = -2, -1


class Kcat:
    """kcat with Debian's librdkafka; it has no admin client and cannot set timestamps."""

    name = "kcat"
    creates_topics = False

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def close(self) -> None:
        """Nothing stays open between calls."""

    def can_write(self, draft: Draft) -> bool:
        """Its one switch turns both an empty key and an empty value into null, and arguments end at a zero byte."""
        mixed = (draft.key, draft.value) in ((None, b""), (b"", None))
        zero = any(b"\0" in (value or b"") for _, value in draft.headers)
        return not mixed and not zero and draft.timestamp is None

    def create_topic(self, topic: str, partitions: int) -> None:
        """Ask for the metadata of a topic that is not there: kcat's producer lets the broker create it."""
        assert partitions == 1, "kcat cannot say how many partitions it wants"
        run_kcat(self._bootstrap, "-L", "-t", topic)

    def delete_topic(self, topic: str) -> None:
        """It cannot."""
        raise NotImplementedError

    def topics(self) -> set[str]:
        """List all topics."""
        return {str(described["topic"]) for described in self._metadata()["topics"]}

    def partitions(self, topic: str) -> int:
        """Count the partitions in the metadata of all topics (asking for one topic would create it)."""
        for described in self._metadata()["topics"]:
            if described["topic"] == topic:
                return len(described["partitions"])
        raise UnknownTopic(topic)

    def write(self, topic: str, drafts: Sequence[Draft], codec: Codec = "none") -> list[Delivery]:
        """Write record by record; records that differ only in key and value share a run."""
        groups: list[list[Draft]] = []
        for draft in drafts:
            if groups and codec != "none" and _run_arguments(groups[-1][0]) == _run_arguments(draft):
                groups[-1].append(draft)
            else:
                groups.append([draft])
        return [delivery for group in groups for delivery in self._write_group(topic, group, codec)]

    def _write_group(self, topic: str, drafts: list[Draft], codec: Codec) -> list[Delivery]:
        fixed: list[str | bytes] = ["-P", "-t", topic, "-vvv", "-z", codec, "-D", RECORD_END]
        fixed += ["-X", "topic.produce.offset.report=true", "-X", "topic.partitioner=murmur2_random"]
        if codec != "none":
            fixed += ["-X", "debug=msg"]
        stdin = b"".join(_line(draft) + RECORD_END for draft in drafts)
        _, said = run_kcat(self._bootstrap, *fixed, *_run_arguments(drafts[0]), stdin=stdin)
        text = said.decode(errors="replace")
        if codec != "none":
            # where a broker's versions make librdkafka give up compression, it says so in its debug log alone
            assert f", {codec})" in text, text
            assert ", uncompressed)" not in text, text
        found = DELIVERED.findall(text)
        assert len(found) == len(drafts), text
        return [Delivery(int(partition), int(offset)) for partition, offset in found]

    def read(self, topic: str, starts: Mapping[int, Start]) -> list[Record]:
        """Run one consumer for each partition up to its end, as JSON."""
        return [record for partition, start in starts.items() for record in self._read_one(topic, partition, start)]

    def _read_one(self, topic: str, partition: int, start: Start) -> list[Record]:
        offset = f"s@{start.timestamp}" if isinstance(start, At) else str(start)
        arguments = ["-C", "-t", topic, "-p", str(partition), "-o", offset, "-e", "-J"]
        # a topic that is not there is an error at once, not after half a minute
        arguments += ["-X", "topic.metadata.propagation.max.ms=0"]
        # the end of a partition is known when a fetch there comes back empty
        arguments += ["-X", "fetch.wait.max.ms=20"]
        try:
            out, _ = run_kcat(self._bootstrap, *arguments)
        except KcatError as error:
            if "Unknown topic or partition" in str(error):
                raise UnknownTopic(topic) from error
            raise
        return [_record(line) for line in out.split(b"\n") if line]

    def beginning_and_end(self, topic: str, partition: int) -> tuple[int, int]:
        """Query both watermarks."""
        return self._query(topic, partition, BEGINNING), self._query(topic, partition, END)

    def offset_for_time(self, topic: str, partition: int, timestamp: int) -> int | None:
        """Query an offset by time; kcat prints -1 when no record is late enough."""
        offset = self._query(topic, partition, timestamp)
        return None if offset == -1 else offset

    def join(self, joining: Joining) -> Member:
        """Start a member."""
        return KcatMember(self._bootstrap, joining)

    def _query(self, topic: str, partition: int, time: int) -> int:
        out, _ = run_kcat(self._bootstrap, "-Q", "-t", f"{topic}:{partition}:{time}")
        ((found, offset),) = QUERIED.findall(out.decode())
        assert int(found) == partition
        return int(offset)

    def _metadata(self) -> Any:
        out, _ = run_kcat(self._bootstrap, "-L", "-J")
        return json.loads(out)


def _run_arguments(draft: Draft) -> list[str | bytes]:
    arguments: list[str | bytes] = [] if draft.partition is None else ["-p", str(draft.partition)]
    for name, value in draft.headers:
        arguments += ["-H", name.encode() if value is None else name.encode() + b"=" + value]
    if draft.key is not None or draft.value is None:
        arguments += ["-K", KEY_END]
    if draft.value is None:
        arguments.append("-Z")
    return arguments


def _line(draft: Draft) -> bytes:
    with_key = draft.key is not None or draft.value is None
    return (draft.key or b"") + KEY_END + (draft.value or b"") if with_key else draft.value or b""


def _record(line: bytes) -> Record:
    # kcat's JSON carries bytes that are not UTF-8 as they are: escaped on the way in, restored on the way out
    fields = json.loads(line.decode("utf-8", "surrogateescape"))
    assert fields["tstype"] == "create", fields["tstype"]
    flat = [_bytes(item) for item in fields.get("headers", [])]
    headers = tuple(((name or b"").decode(), value) for name, value in zip(flat[::2], flat[1::2], strict=True))
    return Record(
        fields["topic"],
        fields["partition"],
        fields["offset"],
        fields["ts"],
        _bytes(fields["key"]),
        _bytes(fields["payload"]),
        headers,
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogateescape")
