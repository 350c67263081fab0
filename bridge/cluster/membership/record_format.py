"""The cluster's records as bytes: JSON, with slots packed in base64.

    {"v":1,"k":"heartbeat","node":{…},"at":12.25}
    {"v":1,"k":"view","sender":["a",1],"base":7,"version":8,"controller":0,"level":1,"members":[{…}],"ids":{"a":0},
     "away":{},"drained":[],"removed":{},"pairs":[[0,8],[1,5]],"slots":"AAEAAQ==","groups":[0,1],"reason":"joined: b"}
    {"v":1,"k":"difference",…,"members":[{…}],"removed":[2],"ids":{},"slots":{"0":"AAIABA=="},"groups":{"0":[1]}}
    {"v":1,"k":"tick","sender":["a",1],"version":8,"whole_at":[3,0],"folded_to":[3,9]}
    {"v":1,"k":"challenge","sender":["a",1],"at":12.25}
    {"v":1,"k":"topic","name":"orders","id":"…","event":"created"}

A whole view names each pair of owner and epoch once; `slots` holds each slot's index in `pairs`, in one byte or, with
more than 256 pairs, two. A difference holds the numbers of the slots that each node gets. Of a later version or an
unknown kind nothing is read: `level` sees to it that no such view is written while a member cannot read it.
"""

import json
import sys
from array import array
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NoReturn

from bridge.cluster.membership.record_fields import MAX_INT, MAX_VERSION, Fields, InvalidClusterRecord, integer, text
from bridge.cluster.membership.records import (
    Challenge,
    Heartbeat,
    Record,
    Tick,
    TopicChange,
    TopicEvent,
    ViewDifference,
    WholeView,
)
from bridge.cluster.membership.view import NO_NODE, ClusterView, Endpoint, NodeRegistration, NodeState
from bridge.pulsar.types import Position

FORMAT_LEVEL: Final = 2
"""The greatest level that this code reads; what a node tells in its heartbeats."""
TRANSACTIONS_LEVEL: Final = 2
"""From this level on a node goes by what the entries of transactions say of themselves."""

MAX_RECORD_BYTES: Final = 2 * 1024 * 1024
_MAX_MEMBERS: Final = 5_000
_MAX_IDS: Final = 20_000
_MAX_SLOTS: Final = 65_536
_MAX_ENDPOINTS: Final = 16
_ONE_BYTE: Final = 256
_VERSION: Final = 1


def encode(record: Record) -> bytes:
    """The record's bytes."""
    kind, fields = _ENCODERS[type(record)](record)
    data = json.dumps({"v": _VERSION, "k": kind, **fields}, separators=(",", ":"), allow_nan=False).encode()
    if len(data) > MAX_RECORD_BYTES:
        raise InvalidClusterRecord(f"{len(data)} bytes are more than {MAX_RECORD_BYTES}")
    return data


def decode(data: bytes | memoryview) -> Record | None:
    """The record; None for a later version and an unknown kind."""
    if len(data) > MAX_RECORD_BYTES:
        raise InvalidClusterRecord(f"{len(data)} bytes are more than {MAX_RECORD_BYTES}")
    try:
        parsed = json.loads(bytes(data), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidClusterRecord(f"no JSON: {error}") from error
    fields = Fields.of(parsed)
    if fields.integer("v", 1, MAX_INT) > _VERSION:
        return None
    decoder = _DECODERS.get(fields.text("k"))
    return decoder(fields) if decoder else None


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidClusterRecord(f"{name} is no number")


# ---- nodes -----------------------------------------------------------------------------------------------------------


def _node_fields(node: NodeRegistration) -> dict[str, Any]:
    return {
        "name": node.name,
        "incarnation": node.incarnation,
        "id": node.id,
        "endpoints": node.endpoints,
        "rack": node.rack,
        "weight": node.weight,
        "state": node.state,
        "level": node.level,
        "software": node.software,
        "settings": node.settings,
        "since": node.since,
    }


def _node(value: object) -> NodeRegistration:
    fields = Fields.of(value)
    return NodeRegistration(
        name=fields.name("name"),
        incarnation=fields.integer("incarnation", 0, MAX_INT),
        id=fields.integer("id", NO_NODE),
        endpoints=tuple(_endpoint(item) for item in fields.items("endpoints", _MAX_ENDPOINTS)),
        rack=fields.text("rack"),
        weight=fields.integer("weight", 0, 1_000_000),
        state=fields.one_of("state", NodeState),
        level=fields.integer("level", 1),
        software=fields.text("software"),
        settings=fields.text("settings"),
        since=fields.version("since"),
    )


def _endpoint(value: object) -> Endpoint:
    if not isinstance(value, list) or len(value) != len(Endpoint._fields):
        raise InvalidClusterRecord("no endpoint")
    return Endpoint(text(value[0]), text(value[1]), integer(value[2], 0, 65_535))


def _members(fields: Fields) -> dict[int, NodeRegistration]:
    nodes = [_node(item) for item in fields.items("members", _MAX_MEMBERS)]
    members = {node.id: node for node in nodes}
    if len(members) != len(nodes) or NO_NODE in members:
        raise InvalidClusterRecord("two members of one id, or one without")
    return members


def _names(fields: Fields, key: str, most: int) -> dict[str, int]:
    """A number for each name."""
    found = fields.mapping(key, _MAX_IDS)
    return {text(name): integer(number, 0, most) for name, number in found.items()}


def _heartbeat_fields(record: Heartbeat) -> tuple[str, dict[str, Any]]:
    return "heartbeat", {"node": _node_fields(record.node), "at": record.at}


def _heartbeat(fields: Fields) -> Heartbeat:
    return Heartbeat(_node(fields.value("node")), fields.number("at"))


# ---- views -----------------------------------------------------------------------------------------------------------


def _whole_fields(record: WholeView) -> tuple[str, dict[str, Any]]:
    view = record.view
    pairs: dict[tuple[int, int], int] = {}
    indexes = [pairs.setdefault(pair, len(pairs)) for pair in zip(view.owners, view.epochs, strict=True)]
    return "view", {
        "sender": record.sender,
        "base": record.base,
        "version": view.version,
        "controller": view.controller,
        "level": view.level,
        "members": [_node_fields(member) for member in view.members.values()],
        "ids": dict(view.ids),
        "away": dict(view.away),
        "drained": sorted(view.drained),
        "removed": dict(view.removed),
        "pairs": list(pairs),
        "slots": _packed(indexes, wide=len(pairs) > _ONE_BYTE),
        "groups": view.groups,
        "reason": record.reason,
    }


def _whole(fields: Fields) -> WholeView:
    pairs = [_pair(item) for item in fields.items("pairs", _MAX_SLOTS)]
    indexes = _unpacked(fields.long_text("slots"), wide=len(pairs) > _ONE_BYTE)
    if indexes and max(indexes) >= len(pairs):
        raise InvalidClusterRecord("a slot without owner and epoch")
    view = ClusterView(
        version=fields.version("version"),
        controller=fields.integer("controller", NO_NODE),
        members=_members(fields),
        ids=_names(fields, "ids", MAX_VERSION),
        owners=tuple(pairs[index][0] for index in indexes),
        epochs=tuple(pairs[index][1] for index in indexes),
        groups=tuple(integer(item, NO_NODE) for item in fields.items("groups", _MAX_SLOTS)),
        level=fields.integer("level", 1),
        away=_names(fields, "away", MAX_VERSION),
        drained=frozenset(text(name) for name in fields.items("drained", _MAX_IDS)),
        removed=_names(fields, "removed", MAX_INT),
    )
    return WholeView(fields.sender("sender"), _base(fields), view, fields.text("reason"))


def _pair(value: object) -> tuple[int, int]:
    if not isinstance(value, list) or len(value) != 2:
        raise InvalidClusterRecord("no owner and epoch")
    return integer(value[0], NO_NODE), integer(value[1], 0, MAX_VERSION)


def _base(fields: Fields) -> int:
    """What the record was made from; its version is later."""
    base = fields.version("base")
    if fields.version("version") <= base:
        raise InvalidClusterRecord("a view that is not later than its base")
    return base


def _difference_fields(record: ViewDifference) -> tuple[str, dict[str, Any]]:
    return "difference", {
        "sender": record.sender,
        "base": record.base,
        "version": record.version,
        "controller": record.controller,
        "level": record.level,
        "members": [_node_fields(member) for member in record.members],
        "removed": record.removed,
        "ids": dict(record.ids),
        "slots": {str(owner): _packed(slots, wide=True) for owner, slots in record.slots.items()},
        "groups": record.groups,
        "reason": record.reason,
    }


def _difference(fields: Fields) -> ViewDifference:
    slots = fields.mapping("slots", _MAX_MEMBERS)
    groups = fields.mapping("groups", _MAX_MEMBERS)
    return ViewDifference(
        sender=fields.sender("sender"),
        base=_base(fields),
        version=fields.version("version"),
        controller=fields.integer("controller", NO_NODE),
        level=fields.integer("level", 1),
        members=tuple(_members(fields).values()),
        removed=tuple(integer(item, 0) for item in fields.items("removed", _MAX_MEMBERS)),
        ids=_names(fields, "ids", MAX_VERSION),
        slots={
            _owner(key): _ascending(_unpacked(text(value, MAX_RECORD_BYTES), wide=True)) for key, value in slots.items()
        },
        groups={_owner(key): _ascending(_numbers(value)) for key, value in groups.items()},
        reason=fields.text("reason"),
    )


def _owner(key: str) -> int:
    if not key.isascii() or not key.isdigit() or len(key) > 10 or str(int(key)) != key:
        raise InvalidClusterRecord("no owner of slots")
    return integer(int(key), 0)


def _numbers(value: object) -> list[int]:
    if not isinstance(value, list) or len(value) > _MAX_SLOTS:
        raise InvalidClusterRecord("no slots")
    return [integer(item, 0) for item in value]


def _ascending(slots: Iterable[int]) -> tuple[int, ...]:
    found = tuple(slots)
    if any(after <= before for before, after in pairwise(found)):
        raise InvalidClusterRecord("slots are not in order")
    return found


def _packed(numbers: Iterable[int], *, wide: bool) -> str:
    packed = array("H" if wide else "B", numbers)
    if sys.byteorder == "little":
        packed.byteswap()
    return b64encode(packed.tobytes()).decode()


def _unpacked(value: str, *, wide: bool) -> Sequence[int]:
    try:
        raw = b64decode(value, validate=True)
    except (Base64Error, ValueError) as error:
        raise InvalidClusterRecord("no base64") from error
    if len(raw) % (2 if wide else 1) or len(raw) > _MAX_SLOTS * 2:
        raise InvalidClusterRecord("no slots")
    packed = array("H" if wide else "B", raw)
    if sys.byteorder == "little":
        packed.byteswap()
    return packed


# ---- the others ------------------------------------------------------------------------------------------------------


def _place(position: Position) -> tuple[int, int]:
    return position.ledger, position.entry


def _tick_fields(record: Tick) -> tuple[str, dict[str, Any]]:
    return "tick", {
        "sender": record.sender,
        "version": record.version,
        "whole_at": _place(record.whole_at),
        "folded_to": _place(record.folded_to),
    }


def _tick(fields: Fields) -> Tick:
    sender, version = fields.sender("sender"), fields.version("version")
    return Tick(sender, version, fields.position("whole_at"), fields.position("folded_to"))


def _challenge_fields(record: Challenge) -> tuple[str, dict[str, Any]]:
    return "challenge", {"sender": record.sender, "at": record.at}


def _challenge(fields: Fields) -> Challenge:
    return Challenge(fields.sender("sender"), fields.number("at"))


def _topic_fields(record: TopicChange) -> tuple[str, dict[str, Any]]:
    return "topic", {"name": record.name, "id": record.id, "event": record.event}


def _topic(fields: Fields) -> TopicChange:
    return TopicChange(fields.name("name"), fields.text("id"), fields.one_of("event", TopicEvent))


_ENCODERS: Final[Mapping[type, Callable[[Any], tuple[str, dict[str, Any]]]]] = {
    Heartbeat: _heartbeat_fields,
    WholeView: _whole_fields,
    ViewDifference: _difference_fields,
    Tick: _tick_fields,
    Challenge: _challenge_fields,
    TopicChange: _topic_fields,
}

_DECODERS: Final[Mapping[str, Callable[[Fields], Record]]] = {
    "heartbeat": _heartbeat,
    "view": _whole,
    "difference": _difference,
    "tick": _tick,
    "challenge": _challenge,
    "topic": _topic,
}
