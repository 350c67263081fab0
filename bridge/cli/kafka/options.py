"""The words of the commands that ask a Kafka: `topic`, `group`, `produce`, `consume`, `acl`."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bridge.errors import SettingsError

MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")
OPERATIONS: Final = (
    "all", "read", "write", "create", "delete", "alter", "describe", "cluster-action", "describe-configs",
    "alter-configs", "idempotent-write",
)  # fmt: skip
EXAMPLES: Final = {
    "topic list": (("all topics", "bridge topic list --bootstrap 127.0.0.1:9092"),),
    "topic describe": (("leaders, offsets, own configs", "bridge topic describe orders --bootstrap 127.0.0.1:9092"),),
    "topic create": (
        ("with its configs", "bridge topic create orders --partitions 6 --set retention.ms=86400000"),
    ),
    "topic delete": (("with all that is in it", "bridge topic delete orders --config bridge.toml"),),
    "topic grow": (("to twelve partitions in all", "bridge topic grow orders 12 --config bridge.toml"),),
    "topic config": (
        ("all of them", "bridge topic config orders"),
        ("one is set, one is the default again", "bridge topic config orders retention.ms=1000 cleanup.policy="),
    ),
    "group list": (("all groups", "bridge group list --bootstrap 127.0.0.1:9092"),),
    "group describe": (
        ("who has which partition, and its lag", "bridge group describe billing --bootstrap 127.0.0.1:9092"),
        ("its lag in all", "bridge group describe billing --json | jq '[.groups[].partitions[].lag]|add'"),
    ),
    "group reset": (
        ("what would be done", "bridge group reset billing --to earliest"),
        ("one partition, to a time", "bridge group reset billing --topic orders:3 --to 2026-11-27T10:00:00Z --execute"),
    ),
    "group delete": (("a group without members", "bridge group delete billing --config bridge.toml"),),
    "produce": (
        ("a record of each line", "echo hello | bridge produce greetings --bootstrap 127.0.0.1:9092"),
        ("with keys and a header", "echo 'k:v' | bridge produce orders --key-separator : --header trace=1"),
    ),
    "consume": (
        ("from the start to the present end", "bridge consume greetings --until-end --bootstrap 127.0.0.1:9092"),
        ("ten records with all that they have", "bridge consume orders --start 2026-11-27T10:00:00Z --count 10 --json"),
    ),
    "acl list": (("of one user", "bridge acl list --principal User:alice --config bridge.toml"),),
    "acl add": (
        ("one may read", "bridge acl add --principal User:alice --operation read --topic orders --config bridge.toml"),
    ),
    "acl remove": (("all that allow her", "bridge acl remove --principal User:alice --config bridge.toml"),),
}  # fmt: skip
_Command = Callable[..., argparse.ArgumentParser]


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]", command: _Command) -> None:
    """Add these commands; `command` makes a parser of a name, a description and the command it belongs to."""
    asking = [*_topics(commands, command), *_groups(commands, command), *_acls(commands, command)]
    produce = command(commands, "produce", "write a record of each line of standard input")
    produce.add_argument("topic", metavar="TOPIC")
    keyed = produce.add_mutually_exclusive_group()
    keyed.add_argument("--key", metavar="TEXT", help="the key of all records")
    keyed.add_argument("--key-separator", metavar="TEXT", help="each line is a key, this, and a value")
    produce.add_argument("--header", action="append", default=[], metavar="NAME=VALUE", help="a header of all records")
    produce.add_argument("--partition", type=int, metavar="N", help="instead of the key's")
    produce.add_argument("--quiet", action="store_true", help="do not print where each record is")
    consume = command(commands, "consume", "print a topic's records")
    consume.add_argument("topic", metavar="TOPIC")
    consume.add_argument("--group", metavar="NAME", help="as a member of this group, which commits")
    consume.add_argument(
        "--start",
        default="start",
        metavar="WHERE",
        help="start, end, an offset, or a time; a group goes on",
    )
    consume.add_argument("--partition", type=int, metavar="N", help="this one alone")
    consume.add_argument("--count", type=int, metavar="N", help="end after so many records")
    consume.add_argument("--until-end", action="store_true", help="end where nothing more is stored")
    consume.add_argument("--json", action="store_true", help="an object a line, with key, headers, offset and time")
    for one in (*asking, produce, consume):
        _add_endpoint(one)


def name_and_value(text: str) -> tuple[str, str]:
    """What `NAME=VALUE` says; the value may be empty, and may have more of `=`. SettingsError: it is none."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise SettingsError(f"{text!r} is no NAME=VALUE")
    return name, value


def _topics(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", command: _Command
) -> list[argparse.ArgumentParser]:
    actions = command(commands, "topic", "show, create, change and delete topics").add_subparsers(
        dest="action", required=True, metavar="action"
    )
    listed = command(actions, "list", "list the topics", "topic")
    described = command(actions, "describe", "show leaders, offsets and own configs of topics", "topic")
    created = command(actions, "create", "create topics", "topic")
    created.add_argument("--partitions", type=_count, metavar="N", help="instead of the server's default")
    created.add_argument(
        "--set", action="append", default=[], dest="config_value", metavar="NAME=VALUE", help="a config"
    )
    deleted = command(actions, "delete", "delete topics with their records", "topic")
    for one in (described, created, deleted):
        one.add_argument("name", nargs="+", metavar="TOPIC")
    grown = command(actions, "grow", "give a topic more partitions", "topic")
    grown.add_argument("name", metavar="TOPIC")
    grown.add_argument("count", type=_count, metavar="N")
    config = command(actions, "config", "show a topic's configs, or change some", "topic")
    config.add_argument("name", metavar="TOPIC")
    config.add_argument("changes", nargs="*", metavar="NAME=VALUE", help="NAME= is the default again")
    for one in (listed, described, config):
        one.add_argument("--json", action="store_true", help="tell it as JSON, for a script")
    return [listed, described, created, deleted, grown, config]


def _groups(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", command: _Command
) -> list[argparse.ArgumentParser]:
    actions = command(commands, "group", "show, reset and delete consumer groups").add_subparsers(
        dest="action", required=True, metavar="action"
    )
    listed = command(actions, "list", "list the groups", "group")
    described = command(actions, "describe", "show members, offsets and lag of groups", "group")
    reset = command(actions, "reset", "set the offsets of a group that has no members", "group")
    reset.add_argument("name", metavar="GROUP")
    reset.add_argument("--to", required=True, metavar="WHERE", help="earliest, latest, an offset, or a time")
    reset.add_argument(
        "--topic", action="append", metavar="TOPIC[:0,1]", help="instead of all that the group has committed"
    )
    reset.add_argument("--execute", action="store_true", help="do it; else it is only shown")
    deleted = command(actions, "delete", "delete groups that have no members", "group")
    for one in (described, deleted):
        one.add_argument("name", nargs="+", metavar="GROUP")
    for one in (listed, described):
        one.add_argument("--json", action="store_true", help="tell it as JSON, for a script")
    return [listed, described, reset, deleted]


def _acls(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", command: _Command
) -> list[argparse.ArgumentParser]:
    actions = command(commands, "acl", "show, add and remove ACLs").add_subparsers(
        dest="action", required=True, metavar="action"
    )
    listed = command(actions, "list", "list ACLs; each option leaves others out", "acl")
    listed.add_argument("--json", action="store_true", help="tell it as JSON, for a script")
    added = command(actions, "add", "add an ACL", "acl")
    removed = command(actions, "remove", "remove the ACLs that the options name; without --deny what allows", "acl")
    for one in (listed, added, removed):
        one.add_argument("--principal", required=one is not listed, metavar="User:NAME", help="whose")
        one.add_argument("--host", metavar="ADDRESS", help="from where; any, if it is left out")
        one.add_argument("--deny", action="store_true", help="what denies, instead of what allows")
        what = one.add_mutually_exclusive_group()
        what.add_argument("--topic", metavar="NAME", help="of this topic; * for all")
        what.add_argument("--group", metavar="NAME", help="of this group; * for all")
        what.add_argument("--transactional-id", metavar="ID", help="of this transactional.id; * for all")
        what.add_argument("--cluster", action="store_true", help="of the cluster")
        one.add_argument("--prefixed", action="store_true", help="of all names that begin so")
        if one is not listed:
            one.add_argument(
                "--operation", action="append", default=[], required=one is added, choices=OPERATIONS, help="which"
            )
    return [listed, added, removed]


def _add_endpoint(command: argparse.ArgumentParser) -> None:
    where = command.add_mutually_exclusive_group()
    where.add_argument("--bootstrap", metavar="HOST:PORT", help="the Kafka to ask; several with commas")
    where.add_argument("--config", type=Path, metavar="FILE", help="the bridge with these settings; without, 9092 here")
    command.add_argument("--tls", action="store_true", help="over TLS, by the system's authorities")
    command.add_argument("--tls-ca", type=Path, metavar="FILE", help="over TLS, by these authorities (PEM)")
    command.add_argument(
        "--tls-cert",
        dest="tls_certificate",
        type=Path,
        metavar="FILE",
        help="log in by this certificate (PEM)",
    )
    command.add_argument("--tls-key", type=Path, metavar="FILE", help="its private key (PEM)")
    command.add_argument("--user", metavar="NAME", help="log in as this user")
    command.add_argument("--mechanism", default=MECHANISMS[0], choices=MECHANISMS, help=f"instead of {MECHANISMS[0]}")
    command.add_argument(
        "--password-file",
        type=Path,
        metavar="FILE",
        help="with its password; else BRIDGE_KAFKA_PASSWORD, or it is asked for",
    )


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of partitions")
    return int(text)
