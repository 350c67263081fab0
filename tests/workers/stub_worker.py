"""A worker without Pulsar: takes the order, serves health and metrics, and says its number on the shared port."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys

from bridge.config import Address, load_text
from bridge.http import HttpServer
from bridge.listening import listen
from bridge.metrics import Metrics
from bridge.workers.control import Order, Ready, encode, receive_order


async def serve(control: socket.socket, order: Order) -> None:
    settings = load_text(order.settings)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_reader(control, stop.set)  # nothing more is said: it has ended
    metrics = Metrics()
    metrics.connections.set(order.worker + 1)

    async def ready() -> str | None:
        return os.environ.get(f"STUB_NOT_READY_{order.worker}")

    http = HttpServer(settings.http, metrics, {"pulsar": ready}, {"/cluster": lambda: {"seen by": order.worker}})
    await http.start()
    (own,) = listen(Address.parse(settings.kafka.listen))

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        metrics.connections_accepted.inc()
        writer.write(f"{order.worker}".encode())
        writer.close()

    for sock in (own, *(socket.socket(fileno=one) for one in order.shared)):
        await asyncio.start_server(greet, sock=sock)
    control.sendall(encode(Ready(own.getsockname()[1], http.port)))
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
