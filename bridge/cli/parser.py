"""What the `bridge` command takes: its commands, their options, and the examples of their help."""

import argparse
from pathlib import Path
from typing import Final

from bridge import __version__
from bridge.cli.kafka import options as kafka

MAX_BROKERS: Final = 9
SHELLS: Final = ("bash", "zsh", "fish")
EXIT_CODES: Final = {
    0: "done; `check`: fit; `ready`: ready; `run` and `standalone`: stopped as asked",
    1: "failed, the reason is on standard error; `check`: not fit; `ready`: not ready; `nodes`: there is no cluster; "
    "`import`: something was refused",
    2: "wrong usage, or a wrong setting; nothing was done",
    130: "interrupted by Ctrl-C before it was done",
}
"""What each exit code means, of every command."""
EXAMPLES: Final = {
    "run": (
        ("serve by a file of settings", "bridge run --config bridge.toml"),
        ("beside a Pulsar that starts, too", "bridge run --wait 120 --config bridge.toml"),
        ("without a file, by the environment", "BRIDGE_PULSAR_SERVICE_URL=pulsar://broker:6650 bridge run"),
    ),
    "check": (
        ("before the first start", "bridge check --config bridge.toml"),
        ("the settings alone, before they are rolled out", "bridge check --offline --config bridge.toml"),
        ("what a script would act on", "bridge check --json | jq '.findings[] | select(.severity == \"unfit\")'"),
    ),
    "ready": (
        ("a health check: exit code 0 where clients are served", "bridge ready --config bridge.toml"),
        ("why it is not ready", "bridge ready --json | jq -r .problem"),
    ),
    "nodes": (
        ("who leads how much", "bridge nodes --config bridge.toml"),
        ("before a node is stopped for long", "bridge nodes --drain bridge-2 --config bridge.toml"),
    ),
    "user list": (("who may log in", "bridge user list --config bridge.toml"),),
    "user add": (
        ("asks for the password", "bridge user add alice --config bridge.toml"),
        ("by a script", "bridge user add alice --mechanism SCRAM-SHA-512 --config bridge.toml <password.txt"),
    ),
    "user remove": (("all that the user has", "bridge user remove alice --config bridge.toml"),),
    "move-state": (
        ("once all nodes of the older version are stopped", "bridge move-state --config bridge.toml"),
        ("back, before nodes of the older version are started again", "bridge move-state --undo --config bridge.toml"),
    ),
    "import kop": (
        ("what would be taken, and what not",
         "bridge import kop --bootstrap localhost:9092 --dry-run --config bridge.toml"),
        ("take it", "bridge import kop --bootstrap localhost:9092 --config bridge.toml"),
        ("what KoP has aborted in some topics, alone",
         "bridge import kop --bootstrap localhost:9092 --what transactions --topics 'orders.*' --config bridge.toml"),
    ),
    "import kafka": (
        ("what would be taken, and what not",
         "bridge import kafka --from kafka.example:9092 --bootstrap localhost:9092 --dry-run"),
        ("the configs of some topics",
         "bridge import kafka --from kafka.example:9092 --bootstrap localhost:9092 --what configs --topics 'orders.*'"),
    ),
    "standalone": (
        ("a Pulsar and the bridge, data kept between runs", "bridge standalone"),
        ("for a test: no data kept, free ports, addresses in a file",
         "bridge standalone --ephemeral --no-demo --kafka-port 0 --http-port 0 --pulsar-port 0 --ready-file up.json"),
        ("a cluster of three brokers", "bridge standalone --brokers 3"),
    ),
    "completion": (
        ("bash, for this user", "bridge completion bash >~/.local/share/bash-completion/completions/bridge"),
        ("zsh, into a directory of $fpath", "bridge completion zsh >~/.zfunc/_bridge"),
        ("fish", "bridge completion fish >~/.config/fish/completions/bridge.fish"),
    ),
    **kafka.EXAMPLES,
}  # fmt: skip
"""Of each command: what for, and the command line."""


def make_parser() -> argparse.ArgumentParser:
    """The parser; `command` of what it returns is the first word, `action` the second one of `user` and `import`."""
    parser = argparse.ArgumentParser(
        prog="bridge",
        description="Let every Kafka client use an unmodified Apache Pulsar.",
        epilog=_exit_codes(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and the codec in use")
    commands = parser.add_subparsers(required=True, dest="command", metavar="command")
    run = _command(commands, "run", "serve Kafka clients from an existing Pulsar")
    run.add_argument("--wait", type=int, metavar="SECONDS", help="so long for a Pulsar that is not there yet")
    check = _command(commands, "check", "tell whether a Pulsar is fit for the bridge, and how to fix it")
    check.add_argument("--offline", action="store_true", help="look at the settings and their files alone")
    ready = _command(commands, "ready", "tell whether the bridge on this machine is ready, as health checks ask")
    nodes = _command(commands, "nodes", "show the nodes that share a Pulsar namespace")
    _add_orders(nodes)
    user = _command(commands, "user", "show, add and remove the users that are kept in Pulsar")
    listed, changing = _add_user(user)
    moved = _command(commands, "move-state", "move what the bridge keeps in Pulsar to a namespace of its own")
    moved.add_argument("--undo", action="store_true", help="move it back, to where older bridges have it")
    imported, kafka_imported = _add_import(
        _command(commands, "import", "take over what a Kafka, or another gateway of Pulsar's, has kept")
    )
    for command in (run, check, ready, nodes, listed, *changing, moved, imported):
        command.add_argument(
            "--config", type=Path, metavar="FILE", help="TOML settings; the environment goes over them"
        )
    for command in (check, ready, nodes, listed, imported, kafka_imported):
        command.add_argument("--json", action="store_true", help="tell it as JSON, for a script")
    kafka.add(commands, _command)
    _add_standalone(_command(commands, "standalone", "start a Pulsar and the bridge here, and show them at work"))
    completion = _command(commands, "completion", "print what a shell needs to complete this command's words")
    completion.add_argument("shell", choices=SHELLS)
    return parser


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, what: str, of: str = ""
) -> argparse.ArgumentParser:
    full = f"{of} {name}".strip()
    return commands.add_parser(
        name,
        help=what,
        description=f"{what[0].upper()}{what[1:]}.",
        epilog=_epilog(EXAMPLES.get(full, ())),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _epilog(examples: tuple[tuple[str, str], ...]) -> str:
    shown = "\n".join(f"  # {what}\n  {line}" for what, line in examples)
    return f"examples:\n{shown}\n\n{_exit_codes()}" if examples else _exit_codes()


def _exit_codes() -> str:
    return "exit codes:\n" + "\n".join(
        f"  {code:<3}  {meaning.replace('`', '')}" for code, meaning in EXIT_CODES.items()
    )


def _add_orders(nodes: argparse.ArgumentParser) -> None:
    orders = nodes.add_mutually_exclusive_group()
    orders.add_argument("--remove", metavar="NAME", help="take away what a node leads, until it is started again")
    orders.add_argument("--drain", metavar="NAME", help="have others lead what a node leads, until --undrain")
    orders.add_argument("--undrain", metavar="NAME", help="give a drained node its share again")


def _add_user(user: argparse.ArgumentParser) -> tuple[argparse.ArgumentParser, list[argparse.ArgumentParser]]:
    """The action that shows, and those that change."""
    actions = user.add_subparsers(dest="action", required=True, metavar="action")
    listed = _command(actions, "list", "show the users, and what each may log in by", "user")
    added = _command(
        actions, "add", "add a user, or change its password, which is read from standard input", "user"
    )  # fmt: skip
    removed = _command(actions, "remove", "remove a user", "user")
    for command in (added, removed):
        command.add_argument("name", metavar="NAME")
        command.add_argument(
            "--mechanism", action="append", default=[], choices=("SCRAM-SHA-256", "SCRAM-SHA-512"), help="only this"
        )
    added.add_argument("--iterations", type=_iterations, default=4096, metavar="N", help="instead of 4096")
    return listed, [added, removed]


def _add_import(parser: argparse.ArgumentParser) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    """From KoP, which settings are needed for, and from Kafka."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="from")
    other = _command(actions, "kafka", "take topics, their configs, ACLs and quotas of a Kafka", "import")
    other.add_argument("--from", metavar="HOST:PORT", required=True, help="the Kafka")
    other.add_argument("--from-conf", type=Path, metavar="FILE", help="client properties for it (SASL, TLS)")
    other.add_argument("--bootstrap", metavar="HOST:PORT", required=True, help="a running bridge, which takes them")
    other.add_argument("--kafka-conf", type=Path, metavar="FILE", help="client properties for the bridge")
    other.add_argument(
        "--what", default="topics,configs,acls,quotas,users", metavar="A,B", help="of topics,configs,acls,quotas,users"
    )
    other.add_argument("--topics", metavar="REGEX", help="topics and configs of those that it fits alone")
    other.add_argument("--replace", action="store_true", help="also where the bridge has another value")
    other.add_argument("--dry-run", action="store_true", help="tell what would be taken, and take nothing")
    kop = _command(
        actions, "kop", "take the offsets that groups committed in Kafka-on-Pulsar, and what it aborted", "import"
    )
    kop.add_argument("--bootstrap", metavar="HOST:PORT", required=True, help="a running bridge, which commits them")
    kop.add_argument(
        "--kafka-conf", type=Path, metavar="FILE", help="client properties (SASL, TLS) as Kafka's tools take them"
    )
    kop.add_argument(
        "--metadata-namespace", default="public/__kafka", metavar="TENANT/NAMESPACE", help="instead of public/__kafka"
    )
    kop.add_argument("--namespace", metavar="TENANT/NAMESPACE", help="whose topics; instead of the bridge's own")
    kop.add_argument("--what", metavar="A,B", help="of groups,transactions; without it both")
    kop.add_argument("--topics", metavar="REGEX", help="transactions of those that it fits alone")
    kop.add_argument("--dry-run", action="store_true", help="tell what would be taken, and take nothing")
    kop.add_argument("--forward", action="store_true", help="also where a group has committed here, and less")
    kop.add_argument("--expired", action="store_true", help="also what has expired in KoP")
    return kop, other


def _add_standalone(parser: argparse.ArgumentParser) -> None:
    for name, default in (("kafka", "9092"), ("http", "7092"), ("pulsar", "6650")):
        parser.add_argument(f"--{name}-port", type=_port, metavar="N", help=f"instead of {default}; 0 for any free one")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--data-dir", type=Path, metavar="D", help="where Pulsar keeps its data between runs")
    where.add_argument("--ephemeral", action="store_true", help="keep no data")
    parser.add_argument(
        "--brokers", type=_count, metavar="N", help="a cluster of N brokers, 3 bookies and a ZooKeeper, each a process"
    )
    parser.add_argument("--no-demo", action="store_true", help="do not send and read the 1,000 demonstration records")
    parser.add_argument("--ready-file", type=Path, metavar="F", help="write addresses and process ids here when ready")
    parser.add_argument("--verify", action="store_true", help="check every byte of Pulsar's cached jars")


def _port(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: 1 to 65535, or 0 for any free one")
    return int(text)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= MAX_BROKERS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of brokers: 1 to {MAX_BROKERS}")
    return int(text)


def _iterations(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 4096 <= int(text) <= 16384:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of iterations: 4096 to 16384")
    return int(text)


class _Version(argparse.Action):
    """Like argparse's own, but the codec is imported only for this option."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from bridge.codec import TWIN

        print(f"bridge {__version__} ({TWIN} codec)")
        parser.exit()
