"""Requests as frames, and frames that are not what they were."""

import random
from typing import Any

from bridge.kafka import frames, message
from bridge.requests.api import Api


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


def header_of(api: Api, version: int, client_id: str) -> bytes:
    return frames.request_header(api.key, version, 0, client_id, api.is_flexible(version))


def frame_of(api: Api, request: Any, version: int, client_id: str, correlation_id: int = 4711) -> bytes:
    """Without its length."""
    flexible = api.is_flexible(version)
    body = bytes(message.encode(request, version, flexible))
    return b"".join(frames.request(api.key, version, correlation_id, client_id, flexible, body))[4:]
