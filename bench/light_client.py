"""Small requests as fast as they are answered, by a client that costs little: `python -m bench.light_client`."""

import argparse
import asyncio
import json
import time

from bench.wire import Client, request, run
from bridge import apis
from bridge.apis import api_versions, heartbeat, metadata
from bridge.kafka.primitives import Buffer

CONNECTIONS = 8
"""To each port."""
IN_FLIGHT = 8
"""Of each connection."""
REQUESTS = {
    "ApiVersions": (18, 0, api_versions.Request()),
    "Metadata": (3, 1, metadata.Request(topics=[])),
    "Heartbeat": (12, 0, heartbeat.Request(group_id="none", generation_id=0, member_id="none")),
}
"""What is asked: the API's key, a version, the request. The heartbeats are of a member that is not there."""


async def load(ports: list[int], name: str, seconds: float) -> dict[str, float]:
    """So many answers in so many seconds."""
    key, version, value = REQUESTS[name]
    frame = request(apis.load()[key], version, value)
    clients = [await Client.connect(f"127.0.0.1:{port}") for port in ports for _ in range(CONNECTIONS)]
    answers = 0
    end = time.perf_counter() + seconds

    def keep_asking(client: Client) -> None:
        def told(body: Buffer | None) -> None:
            nonlocal answers
            if body is None:
                raise ConnectionError("the bridge hung up")
            answers += 1
            if time.perf_counter() < end:
                client.send(frame, told)

        client.send(frame, told)

    began = time.perf_counter()
    for client in clients:
        for _ in range(IN_FLIGHT):
            keep_asking(client)
    await asyncio.sleep(seconds)
    taken, counted = time.perf_counter() - began, answers
    for client in clients:
        client.close()
    return {"requests": counted, "seconds": taken}


def main() -> None:
    """Print the result as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ports", required=True)
    parser.add_argument("--api", choices=REQUESTS, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    options = parser.parse_args()
    ports = [int(port) for port in options.ports.split(",")]
    print(json.dumps(run(load(ports, options.api, options.seconds))))


if __name__ == "__main__":
    main()
