"""The `bridge` command: run, standalone, check, ready, nodes, user.

What a command needs is imported when it runs: `bridge run` must not need the demonstration's clients, nor
`bridge --version` a broker's protocol.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from getpass import getpass
from pathlib import Path

from bridge import __version__, log
from bridge.config import load
from bridge.errors import BridgeError, SettingsError
from bridge.event_loop import process_count, run_async

FAILED = 1
WRONG_SETTINGS = 2
MAX_BROKERS = 9


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code: 0 done, 1 failed or unfit, 2 wrong settings or usage."""
    try:
        options = _parser().parse_args(arguments)
        command: Callable[[argparse.Namespace], int] = options.command
        return command(options)
    except SettingsError as error:
        return _complain(error, WRONG_SETTINGS)
    except BridgeError as error:
        return _complain(error, FAILED)
    except KeyboardInterrupt:
        return 130


def _run(options: argparse.Namespace) -> int:
    settings = load(options.config)
    if process_count(settings.kafka.workers) > 1:
        log.configure(settings.log, fields={"worker": "supervisor"})
        from bridge.workers.supervisor import supervise

        return supervise(settings)
    log.configure(settings.log)
    from bridge.allocator import keep_freed_memory, pause_collection
    from bridge.listening import open_listeners

    pause_collection()
    keep_freed_memory()
    sockets = open_listeners(settings)
    from bridge.server import run

    run_async(run(settings, sockets))
    return 0


def _check(options: argparse.Namespace) -> int:
    settings = load(options.config)
    log.configure(settings.log)
    from bridge.check.table import report

    return run_async(report(settings, sys.stdout))


def _ready(options: argparse.Namespace) -> int:
    from bridge.ready import show

    return show(load(options.config).http, sys.stdout)


def _nodes(options: argparse.Namespace) -> int:
    settings = load(options.config)
    log.configure(settings.log)
    from bridge.cluster.orders import Order
    from bridge.nodes import order, show

    for what in Order:
        name = getattr(options, what)
        if name is not None:
            return run_async(order(settings, what, name, sys.stdout))
    return run_async(show(settings, sys.stdout))


def _user(options: argparse.Namespace) -> int:
    settings = load(options.config)
    log.configure(settings.log)
    from bridge import users

    if options.action == "list":
        return run_async(users.show(settings, sys.stdout))
    if options.action == "remove":
        return run_async(users.remove(settings, options.name, options.mechanism))
    password = getpass("Password: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
    return run_async(users.add(settings, options.name, password, options.mechanism, options.iterations))


def _standalone(options: argparse.Namespace) -> int:
    from bridge.standalone.command import Options, run

    return run(
        Options(
            kafka_port=options.kafka_port,
            http_port=options.http_port,
            pulsar_port=options.pulsar_port,
            data_dir=options.data_dir,
            ephemeral=options.ephemeral,
            brokers=options.brokers,
            demo=not options.no_demo,
            ready_file=options.ready_file,
            verify_jars=options.verify,
        )
    )


def _complain(error: BridgeError, code: int) -> int:
    print(f"bridge: {error}", file=sys.stderr)
    return code


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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bridge", description="Let every Kafka client use an unmodified Apache Pulsar."
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and the codec in use")
    commands = parser.add_subparsers(required=True, metavar="command")
    run = commands.add_parser("run", help="serve Kafka clients from an existing Pulsar")
    run.set_defaults(command=_run)
    check = commands.add_parser("check", help="tell whether a Pulsar is fit for the bridge, and how to fix it")
    check.set_defaults(command=_check)
    ready = commands.add_parser("ready", help="tell whether the bridge on this machine is ready, as health checks ask")
    ready.set_defaults(command=_ready)
    nodes = commands.add_parser("nodes", help="show the nodes that share a Pulsar namespace")
    nodes.set_defaults(command=_nodes)
    orders = nodes.add_mutually_exclusive_group()
    orders.add_argument("--remove", metavar="NAME", help="take away what a node leads, until it is started again")
    orders.add_argument("--drain", metavar="NAME", help="have others lead what a node leads, until --undrain")
    orders.add_argument("--undrain", metavar="NAME", help="give a drained node its share again")
    user = commands.add_parser("user", help="show, add and remove the users that are kept in Pulsar")
    user.set_defaults(command=_user)
    actions = user.add_subparsers(dest="action", required=True, metavar="action")
    listed = actions.add_parser("list", help="show the users, and what each may log in by")
    added = actions.add_parser("add", help="add a user, or change its password, which is read from standard input")
    removed = actions.add_parser("remove", help="remove a user")
    for command in (added, removed):
        command.add_argument("name", metavar="NAME")
        command.add_argument(
            "--mechanism", action="append", default=[], choices=("SCRAM-SHA-256", "SCRAM-SHA-512"), help="only this"
        )
    added.add_argument("--iterations", type=_iterations, default=4096, metavar="N", help="instead of 4096")
    for command in (run, check, ready, nodes, listed, added, removed):
        command.add_argument(
            "--config", type=Path, metavar="FILE", help="TOML settings; the environment goes over them"
        )
    _add_standalone(commands.add_parser("standalone", help="start a Pulsar and the bridge here, and show them at work"))
    return parser


def _add_standalone(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=_standalone)
    for name, default in (("kafka", "9092"), ("http", "9308"), ("pulsar", "6650")):
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
