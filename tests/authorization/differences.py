"""Where the bridge answers otherwise than Kafka to the same principal, and why."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bridge.kafka.error_codes import ErrorCode


@dataclass(frozen=True, slots=True)
class Difference:
    """A part of Kafka's answers to some requests, and what the bridge says in its place."""

    rows: str
    """The requests, as a regular expression of their names from the beginning."""
    why: str
    kafka: str = ".*"
    """A part of the answer, as a regular expression of the whole part."""
    ours: str | Callable[[re.Match[str]], str] | None = None
    """What stands there instead, perhaps with groups of the other; "": nothing. None: what Kafka says."""
    like: str = ""
    """Another request: the answers to it are what is looked at."""

    def applies(self, row: str) -> bool:
        """Whether it is about a request."""
        return re.match(self.rows, row) is not None

    def applied(self, answer: str) -> str:
        """What the bridge answers where Kafka answers this."""
        if self.ours is None:
            return answer
        whole = re.compile(self.kafka)
        parts = {whole.sub(self.ours, part, count=1) if whole.fullmatch(part) else part for part in answer.split()}
        return " ".join(sorted(parts - {""})) or ErrorCode.NONE.name


DIFFERENCES = [
    Difference("Fetch v.*: as a follower", "there are no followers: a Fetch of one that may is a consumer's",
               r"(\w+-topic/0):NOT_LEADER_OR_FOLLOWER", r"\1"),
    Difference("Metadata v.*: to be created", "the topic is there when the answer is",
               r"(\w+-auto):UNKNOWN_TOPIC_OR_PARTITION", r"\1/0"),
    Difference("IncrementalAlterConfigs v.*: of loggers", "there are no loggers to be set", "broker",
               "broker:INVALID_CONFIG"),
    Difference("IncrementalAlterConfigs v.*: of client metrics", "there are no client metrics", "mine-metrics",
               "mine-metrics:INVALID_REQUEST"),
    Difference("AlterShareGroupOffsets v", "Kafka 4.1 leaves out the partitions, and alters nothing", "NONE",
               "mine-topic/0"),
    Difference("StreamsGroupDescribe v", "Kafka 4.1 shows hidden topics, later ones refuse as for consumers",
               r"(\w+)-consumers(:.*)?", lambda part: f"{part[1]}-streams{part[2]}" if part[2] else "",
               "ConsumerGroupDescribe v1: with operations"),
    Difference("DescribeQuorum v", "there is no quorum", "NONE", "UNSUPPORTED_VERSION"),
]  # fmt: skip


def expected(row: str, kafka: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """What the bridge is to answer each principal, by what Kafka answers, of all requests."""
    found = dict(kafka[row])
    for one in DIFFERENCES:
        if one.applies(row):
            found = {right: one.applied(kafka[one.like or row][right] if one.like else found[right]) for right in found}
    return found
