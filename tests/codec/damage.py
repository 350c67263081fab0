"""Bytes that are changed by chance, for tests of what damage does."""

import random


def mutated(data: bytes, chance: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        out[chance.randrange(len(out))] = chance.randrange(256)
    return bytes(out[: chance.randint(1, len(out))] if chance.random() < 0.2 else out)
