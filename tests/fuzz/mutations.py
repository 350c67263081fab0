"""Valid requests, changed by chance; what comes back must be an answer or an end, in time."""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Callable

from tests.fuzz import wire

_INTERESTING = (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\0", b"\xff\xff\xff\x7f", b"\xff" * 10)


_FETCH = 1
_LONG_WAIT_MS = 5000


def seeds(topic: str) -> list[bytes]:
    """Valid requests of every kind, without their lengths."""
    frames = [
        *(wire.api_versions_request(version) for version in (0, 3, 4)),
        *(wire.metadata_request(topic, version=version) for version in (0, 5, 9, 12)),
        wire.list_offsets_request(topic, -1),
        wire.list_offsets_request(topic, 1_700_000_000_000),
        wire.fetch_request(topic),
        wire.produce(topic.encode(), wire.batch()),
    ]
    return [frame[4:] for frame in frames]


def mutated(chance: random.Random, seed: bytes) -> bytes:
    """The seed with one to four changes; half of all keep the API's key and version."""
    data = bytearray(seed)
    start = chance.choice((0, 4))
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(start, max(len(data), start + 1))
        kind = chance.randrange(5)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            data[at : at + 4] = chance.choice(_INTERESTING)
        elif kind == 2:
            del data[at : at + chance.randint(1, 8)]
        elif kind == 3:
            data[at:at] = chance.randbytes(chance.randint(1, 8))
        else:
            data[at:at] = data[start : start + chance.randint(1, 32)]
    return bytes(data)


def run(address: str, topic: str, chance: random.Random, more: Callable[[int], bool]) -> tuple[int, int]:
    """Send mutants while `more(sent)`, each followed by a valid request; how many were answered, how many closed.

    A mutant that is refused closes the connection. Otherwise the answer to the valid request behind it must come: the
    bridge neither falls silent nor loses its place in the stream.
    """
    samples = seeds(topic)
    answered = closed = 0
    opened = wire.connect(address)
    try:
        while more(answered + closed):
            mutant = mutated(chance, chance.choice(samples))
            if len(mutant) < 10 or _asks_to_wait(mutant):
                continue
            try:
                opened.sendall(wire.framed(mutant) + wire.api_versions_request(0, correlation_id=0x5A5A5A5A))
                alive = _until_marker(opened)
            except TimeoutError:
                raise AssertionError(f"no answer and no end to {mutant.hex()}") from None
            except ConnectionError:
                alive = False
            if alive:
                answered += 1
                continue
            closed += 1
            opened.close()
            opened = wire.connect(address)
    finally:
        opened.close()
    return answered, closed


def _asks_to_wait(mutant: bytes) -> bool:
    """Whether it is a Fetch that asks for an answer only after minutes, which it then gets."""
    key, _, _, client_id = struct.unpack_from(">hhih", mutant)
    at = 10 + max(client_id, 0) + 4  # one byte later in flexible versions, whose header ends with tags
    waits = [int.from_bytes(mutant[start : start + 4], "big", signed=True) for start in (at, at + 1)]
    return key == _FETCH and max(waits) > _LONG_WAIT_MS


def _until_marker(opened: socket.socket) -> bool:
    while True:
        answer = wire.receive(opened)
        if answer is None:
            return False
        if struct.unpack_from(">i", answer)[0] == 0x5A5A5A5A:
            return True
