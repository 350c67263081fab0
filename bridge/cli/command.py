"""The `bridge` command: what serves and what tends it, and what asks a Kafka (bridge/cli/kafka).

What a command needs is imported when it runs: `bridge run` must not need the demonstration's clients, nor
`bridge --version` a broker's protocol.
"""

import argparse
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from getpass import getpass
from pathlib import Path
from typing import Any, Final, TypeVar

from bridge.cli.parser import make_parser
from bridge.config import LogSettings, Settings, load
from bridge.config.secret_files import open_files
from bridge.config.urls import without_secrets
from bridge.errors import BridgeError, SettingsError
from bridge.telemetry import log

FAILED: Final = 1
WRONG_SETTINGS: Final = 2
INTERRUPTED: Final = 130
_T = TypeVar("_T")


_OTHER_FILES: Final = 256
"""The program's own, connections to Pulsar's other side and between nodes."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code, as `bridge.cli.parser.EXIT_CODES` tells them."""
    try:
        options = _parsed(arguments)
        return _COMMANDS[options.command](options)
    except SettingsError as error:
        return max(_complain(SettingsError(line), WRONG_SETTINGS) for line in str(error).splitlines())
    except BridgeError as error:
        return _complain(error, FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = make_parser()
    options, unknown = parser.parse_known_args(arguments)
    if unknown:  # argparse says no more than that, under the usage of `bridge` alone
        command = " ".join(filter(None, (options.command, getattr(options, "action", None))))
        parser.error(f"unrecognized arguments: {' '.join(unknown)}; bridge {command} --help shows what it takes")
    return options


def _run(options: argparse.Namespace) -> int:
    from bridge.runtime.loop import process_count

    settings = load(options.config)
    if options.wait is not None:
        settings = settings.with_values(pulsar={"wait_seconds": options.wait})
    if process_count(settings.kafka.workers) > 1:
        log.configure(settings.log, fields={"worker": "supervisor"})
        _prepare(settings, options.config)
        from bridge.node.workers.supervisor import supervise

        return supervise(settings)
    log.configure(settings.log)
    _prepare(settings, options.config)
    from bridge.net.listening import open_listeners
    from bridge.runtime.memory import keep_freed_memory, pause_collection

    pause_collection()
    keep_freed_memory()
    sockets = open_listeners(settings)
    from bridge.node.server import run

    _run_async(run(settings, sockets))
    return 0


def _run_async(work: Coroutine[Any, Any, _T]) -> _T:
    from bridge.runtime.loop import run_async

    return run_async(work)


def _prepare(settings: Settings, file: Path | None) -> None:
    """What a server needs of the system, before it opens anything; what an operator should mend is told."""
    from bridge.runtime import file_limit

    connections = settings.kafka.max_connections + settings.http.max_connections
    file_limit.allow(connections + settings.pulsar.max_producer_connections + _OTHER_FILES)
    for one in open_files(settings, file):
        fields = {"setting": one.setting, "file": one.path, "mode": one.mode, "run": one.remedy}
        log.get(__name__).warning("! others on this machine can read or change a file with a secret", extra=fields)


def _log_little(settings: Settings) -> None:
    """A command's answers do not stand between what servers log: only warnings, unless something else is asked for."""
    quiet = settings.log.level == LogSettings().level
    log.configure(replace(settings.log, level="warning") if quiet else settings.log)


def _check(options: argparse.Namespace) -> int:
    settings = load(options.config)
    _log_little(settings)
    from bridge.check.table import report, tell

    if options.offline:
        from bridge.cli.offline import examine

        findings = examine(settings, options.config)
        return tell(settings, findings, sys.stdout, as_json=options.json, fit="the settings are fit")
    return _run_async(report(settings, sys.stdout, options.config, as_json=options.json))


def _ready(options: argparse.Namespace) -> int:
    from bridge.http.ready import show

    return show(load(options.config).http, sys.stdout, as_json=options.json)


def _nodes(options: argparse.Namespace) -> int:
    settings = load(options.config)
    _log_little(settings)
    from bridge.cli.nodes import order, show
    from bridge.cluster.membership.orders import Order

    for what in Order:
        name = getattr(options, what)
        if name is not None:
            return _run_async(order(settings, what, name, sys.stdout, as_json=options.json))
    return _run_async(show(settings, sys.stdout, as_json=options.json))


def _user(options: argparse.Namespace) -> int:
    settings = load(options.config)
    _log_little(settings)
    from bridge.cli import users

    if options.action == "list":
        return _run_async(users.show(settings, sys.stdout, as_json=options.json))
    if options.action == "remove":
        gone = _run_async(users.remove(settings, options.name, options.mechanism))
        print(f"{options.name} may no longer log in by {', '.join(gone)}")
        return 0
    password = getpass("Password: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
    added = _run_async(users.add(settings, options.name, password, options.mechanism, options.iterations))
    print(f"{options.name} may log in by {', '.join(added)}")
    return 0


def _move_state(options: argparse.Namespace) -> int:
    settings = load(options.config)
    _log_little(settings)
    from bridge.cli.state_move import move

    return _run_async(move(settings, sys.stdout, undo=options.undo))


def _topic(options: argparse.Namespace) -> int:
    from bridge.cli.kafka import topics

    return topics.run(options)


def _group(options: argparse.Namespace) -> int:
    from bridge.cli.kafka import groups

    return groups.run(options)


def _produce(options: argparse.Namespace) -> int:
    from bridge.cli.kafka import records

    return records.produce(options)


def _consume(options: argparse.Namespace) -> int:
    from bridge.cli.kafka import records

    return records.consume(options)


def _acl(options: argparse.Namespace) -> int:
    from bridge.cli.kafka import acls

    return acls.run(options)


def _import(options: argparse.Namespace) -> int:
    if options.action == "kafka":
        from bridge.cli.kafka_import import carry

        return carry(options, sys.stdout)
    settings = load(options.config)
    _log_little(settings)
    from bridge.cli.kop.moving import move

    return move(settings, options, sys.stdout)


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


def _completion(options: argparse.Namespace) -> int:
    from bridge.pipeline.completion import script

    print(script(make_parser(), options.shell))
    return 0


_COMMANDS: Final[dict[str, Callable[[argparse.Namespace], int]]] = {
    "run": _run,
    "check": _check,
    "ready": _ready,
    "nodes": _nodes,
    "user": _user,
    "move-state": _move_state,
    "topic": _topic,
    "group": _group,
    "produce": _produce,
    "consume": _consume,
    "acl": _acl,
    "import": _import,
    "standalone": _standalone,
    "completion": _completion,
}


def _complain(error: BridgeError, code: int) -> int:
    print(f"bridge: {without_secrets(str(error))}", file=sys.stderr)
    return code
