"""What Kafka's own tools are asked to do, one after the other, on a server with SASL_SSL, SCRAM and an authorizer."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from tests.support.java import java_command

FILE = Path(__file__).with_name("tools.json")
ADMIN, PASSWORD = "admin", "open sesame"
MECHANISM = "SCRAM-SHA-512"
TIMEOUT = 120.0
ACLS = "org.apache.kafka.tools.AclCommand"
CONFIGS = "kafka.admin.ConfigCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_CONFIG = {PRODUCER: "--producer.config", CONSUMER: "--consumer.config"}


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a tool."""

    name: str
    user: str
    tool: str
    arguments: tuple[str, ...]
    stdin: bytes = b""


def _step(name: str, user: str, tool: str, arguments: str, stdin: bytes = b"") -> Step:
    return Step(name, user, tool, tuple(arguments.split()), stdin)


def _acls(name: str, arguments: str, user: str = ADMIN) -> Step:
    return _step(name, user, ACLS, arguments)


_ALICE = "--allow-principal User:alice"
_ONE = "--max-messages 1 --timeout-ms 20000 --from-beginning"

FIRST = [
    Step("a user is added", ADMIN, CONFIGS, (
        "--alter", "--entity-type", "users", "--entity-name", "alice", "--add-config",
        f"{MECHANISM}=[iterations=4096,password={PASSWORD}]",
    )),
    _step("a topic is created", ADMIN, TOPICS, "--create --topic orders --partitions 1"),
    _step("without rights nothing is written", "alice", PRODUCER, "--topic orders", b"no\n"),
    _acls("a producer's entries are added", f"--add {_ALICE} --producer --topic orders"),
    _step("it is written", "alice", PRODUCER, "--topic orders", b"yes\n"),
]  # fmt: skip
"""What a run of all tests has time for."""
REST = [
    _acls("a consumer's entries are added", f"--add {_ALICE} --consumer --topic orders --group readers"),
    _acls("entries are listed", "--list"),
    _step("it is read", "alice", CONSUMER, f"--topic orders --group readers {_ONE}"),
    _step("what it may see is listed", "alice", TOPICS, "--list"),
    _step("another topic is created", ADMIN, TOPICS, "--create --topic secret --partitions 1"),
    _step("another topic is not described", "alice", TOPICS, "--describe --topic secret"),
    _step("its own topic is described", "alice", TOPICS, "--describe --topic orders"),
    _step("a topic is not created", "alice", TOPICS, "--create --topic mine"),
    _step("a topic is not deleted", "alice", TOPICS, "--delete --topic orders"),
    _step("a topic is not enlarged", "alice", TOPICS, "--alter --topic orders --partitions 3"),
    _step("a topic's configs are not altered", "alice", CONFIGS,
          "--alter --entity-type topics --entity-name orders --add-config retention.ms=3600000"),
    _step("another group is not joined", "alice", CONSUMER, f"--topic orders --group others {_ONE}"),
    _step("another topic is not read", "alice", CONSUMER, f"--topic secret --group readers {_ONE}"),
    _step("its own groups are listed", "alice", GROUPS, "--list"),
    _step("another group is not described", "alice", GROUPS, "--describe --group others"),
    _step("its group's offsets are not reset", "alice", GROUPS,
          "--reset-offsets --group readers --topic secret --to-earliest --execute"),
    _step("its group is not deleted", "alice", GROUPS, "--delete --group readers"),
    _acls("entries are not listed", "--list", "alice"),
    _acls("entries are not added", f"--add {_ALICE} --operation All --topic *", "alice"),
    _acls("entries are not removed", "--remove --force --topic orders", "alice"),
    _step("users are not listed", "alice", CONFIGS, "--describe --entity-type users"),
    _acls("prefixed entries are added",
          f"--add {_ALICE} --operation Create --operation Describe --topic alice- --resource-pattern-type prefixed"),
    _step("a topic of the prefix is created", "alice", TOPICS, "--create --topic alice-1"),
    _acls("a denial for an address is added",
          "--add --deny-principal User:alice --deny-host 127.0.0.1 --operation Create --topic alice-2"),
    _step("a denied topic is not created", "alice", TOPICS, "--create --topic alice-2"),
    _acls("entries that apply to a topic are listed", "--list --topic alice-2 --resource-pattern-type match"),
    _acls("entries of a principal are listed", "--list --principal User:alice --topic orders"),
    _acls("a transactional producer's entries are added",
          f"--add {_ALICE} --producer --topic orders --transactional-id payments"),
    _acls("an idempotent producer's entries are added", f"--add {_ALICE} --producer --topic orders --idempotent"),
    _acls("the cluster's entries are added", f"--add {_ALICE} --operation Describe --cluster"),
    _acls("entries of a group are added", "--add --allow-principal User:* --operation Delete --group *"),
    _acls("an operation that a group has not is refused", f"--add {_ALICE} --operation Write --group readers"),
    _acls("a producer's entries are removed", f"--remove --force {_ALICE} --producer --topic orders"),
    _acls("prefixed entries are removed",
          f"--remove --force {_ALICE} --operation Create --topic alice- --resource-pattern-type prefixed"),
    _acls("the rest is listed", "--list"),
    _step("nothing is written any more", "alice", PRODUCER, "--topic orders", b"no\n"),
    _step("users are listed", ADMIN, CONFIGS, "--describe --entity-type users"),
    _step("a client's quota is set", ADMIN, CONFIGS,
          "--alter --entity-type clients --entity-name app --add-config producer_byte_rate=1048576"),
    _step("a user's quota for all other clients is set", ADMIN, CONFIGS,
          "--alter --entity-type users --entity-name alice --entity-type clients --entity-default "
          "--add-config consumer_byte_rate=2097152,request_percentage=200"),
    _step("quotas of clients are listed", ADMIN, CONFIGS, "--describe --entity-type clients"),
    _step("a user's quotas for clients are listed", ADMIN, CONFIGS,
          "--describe --entity-type users --entity-name alice --entity-type clients"),
    _step("a quota that there is none of is refused", ADMIN, CONFIGS,
          "--alter --entity-type clients --entity-name app --add-config bytes=1"),
    _step("quotas are not set", "alice", CONFIGS,
          "--alter --entity-type clients --entity-default --add-config request_percentage=50"),
    _step("quotas are not listed", "alice", CONFIGS, "--describe --entity-type clients"),
    _step("a client's quota is removed", ADMIN, CONFIGS,
          "--alter --entity-type clients --entity-name app --delete-config producer_byte_rate"),
    _step("what is left of them is listed", ADMIN, CONFIGS, "--describe --entity-type clients"),
    Step("a user is removed", ADMIN, CONFIGS,
         ("--alter", "--entity-type", "users", "--entity-name", "alice", "--delete-config", MECHANISM)),
    _step("who is removed does not log in", "alice", TOPICS, "--list"),
]  # fmt: skip
STEPS = [*FIRST, *REST]


def run(step: Step, address: str, login: Path) -> list[str]:
    """What a tool says, without what differs by chance, in an order of its own; how it ended comes first."""
    config = _CONFIG.get(step.tool, "--command-config")
    command = java_command(step.tool, "--bootstrap-server", address, config, str(login), *step.arguments)
    done = subprocess.run(command, input=step.stdin, capture_output=True, timeout=TIMEOUT)
    text = (done.stdout + done.stderr).decode(errors="replace")
    text = text.replace(str(login), "{login}").replace(address, "{address}")
    return [f"ended with {done.returncode}", *sorted(set(_blocks(text.splitlines())))]


_LEFT_OUT = re.compile(r"\[.*?\] (?:WARN|ERROR|INFO) |\s*(?:at|\.\.\.) |java\.lang\.IllegalStateException")
"""The log, where exceptions were raised, and what the producer's closing runs into after a failure."""
_BY_CHANCE = re.compile(
    r"TopicId: \S+|Leader: \d+|Replicas: \S+|Isr: \S+|Elr: ?\S*|LastKnownElr: ?\S*|Configs: .*"
    r"|(?<=ClusterAuthorizationException): .*"
)


def _blocks(lines: Sequence[str]) -> Iterator[str]:
    """Each line with the indented ones below it."""
    block: list[str] = []
    for line in takewhile(lambda line: not line.startswith("Option "), lines):  # the help
        if not line.strip() or _LEFT_OUT.match(line):
            continue
        if block and not line[0].isspace():
            yield " | ".join([block[0], *sorted(block[1:])])
            block = []
        block.append(" ".join(_BY_CHANCE.sub("", line).split()))
    if block:
        yield " | ".join([block[0], *sorted(block[1:])])
