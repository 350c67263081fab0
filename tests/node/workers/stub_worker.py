"""A worker without Pulsar: takes the order, serves health and metrics, and says its number on the shared port."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from functools import partial

from bridge.config import load_text
from bridge.http.server import HttpServer
from bridge.http.status import BadQuery, Query, pages
from bridge.net.listening import open_listeners
from bridge.node.workers.control import Ready, WorkerOrder, encode, receive_order
from bridge.telemetry.metrics import Metrics


async def status(worker: int, query: Query) -> object:
    if query.view == "none":
        raise BadQuery("there is no such view")
    return {"workers": [], "worker": None, "answer": {"seen by": worker, "query": query._asdict()}}


async def serve(control: socket.socket, order: WorkerOrder) -> None:
    settings = load_text(order.settings)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_reader(control, stop.set)  # nothing more is said: it has ended
    metrics = Metrics()
    metrics.connections.set(order.worker + 1)

    async def ready() -> str | None:
        return os.environ.get(f"STUB_NOT_READY_{order.worker}")

    documents, shown = {"/cluster": lambda: {"seen by": order.worker}}, pages(partial(status, order.worker))
    http = HttpServer(settings.http, metrics, {"pulsar": ready}, documents, pages=shown)
    await http.start()
    sockets = open_listeners(settings)

    async def greet(name: str, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        metrics.connections_accepted.inc()
        writer.write(f"{order.worker}{name}".encode())
        writer.close()

    several = len(sockets) > 1
    for name, own in sockets.items():
        shared = [socket.socket(fileno=one) for one in order.shared[name]]
        for sock in (*own, *shared):
            await asyncio.start_server(partial(greet, f" by {name}" if several else ""), sock=sock)
    ports = {name: own[0].getsockname()[1] for name, own in sockets.items()}
    control.sendall(encode(Ready(ports, http.port)))
    await stop.wait()
    await http.stop()


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    order = receive_order(control)
    if f"STUB_FAILS_{order.worker}" in os.environ:
        sys.exit(3)
    control.setblocking(False)
    asyncio.run(serve(control, order))


if __name__ == "__main__":
    main()
