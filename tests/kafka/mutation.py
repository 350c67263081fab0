"""Frames that are not what they were."""

import random


def mutate(frame: bytearray, chance: random.Random) -> None:
    """Change, leave out or add a byte behind the correlation id's begin."""
    at = chance.randrange(4, len(frame))
    match chance.randrange(3):
        case 0:
            frame[at] = chance.randrange(256)
        case 1:
            del frame[at]
        case _:
            frame.insert(at, chance.randrange(256))
