"""A worker's process: a bridge node that also accepts on the shared sockets, and ends with its supervisor."""

import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from itertools import chain

from bridge.config import Address, load_text
from bridge.errors import BridgeError
from bridge.net.listening import open_listeners
from bridge.node.server import Server, run
from bridge.node.workers.control import Ready, WorkerOrder, encode, receive_order
from bridge.runtime.loop import run_async
from bridge.runtime.memory import keep_freed_memory, pause_collection
from bridge.runtime.service_manager import forget
from bridge.telemetry import log

FAILED = 1
_log = log.get(__name__)


def main(descriptor: int) -> int:
    """Serve until told to stop; `descriptor`: the socket to the supervisor."""
    control = socket.socket(fileno=descriptor)
    control.set_inheritable(False)
    forget()  # the supervisor tells it
    try:
        order = receive_order(control)
        settings = load_text(order.settings)
        log.configure(settings.log, fields={"worker": order.worker})
        _stop_with_supervisor(control)
        return _serve(control, order)
    except EOFError:
        return FAILED
    except BridgeError as error:
        _log.error("! worker failed", extra={"error": error})
        return FAILED


def _serve(control: socket.socket, order: WorkerOrder) -> int:
    settings = load_text(order.settings)
    pause_collection()
    keep_freed_memory()
    shared = {
        name: [socket.socket(fileno=descriptor) for descriptor in descriptors]
        for name, descriptors in order.shared.items()
    }
    for one in chain(*shared.values()):
        one.set_inheritable(False)
    sockets = open_listeners(settings)
    told = {}
    for listener in settings.listeners:
        port = sockets[listener.name][0].getsockname()[1]
        told[listener.name] = listener.listen, Address(listener.told(port).host, port)

    def ready(server: Server) -> None:
        control.sendall(encode(Ready(dict(server.listeners.ports), server.http_port)))

    run_async(run(settings.with_listeners(told), sockets, shared, ready))
    return 0


def _stop_with_supervisor(control: socket.socket) -> None:
    """Drain when the supervisor's end of the socket is gone."""

    def watch() -> None:
        with suppress(OSError):  # reset: it had not read all that we said
            while control.recv(1):
                pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="supervisor watch", daemon=True).start()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
