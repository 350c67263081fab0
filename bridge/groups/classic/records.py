"""A group's metadata as the store keeps it: what a bridge must know to go on with the group after a restart.

Version 1 is JSON, so that it can be read with Pulsar's own tools; opaque bytes are base64:

    {"v": 1, "generation": 3, "type": "consumer", "protocol": "range", "leader": "…", "since": <ms>, "members": [
      {"id": "…", "instance": null, "client": "…", "host": "/10.0.0.1", "session": 45000, "rebalance": 300000,
       "subscription": "<base64>", "assignment": "<base64>"}]}

The fields are those of Kafka's GroupMetadataValue. A group without members has protocol and leader null.
"""

import base64
import json
from dataclasses import dataclass, field
from typing import Any

from bridge.groups.classic.members import Member
from bridge.groups.store.records import BadRecord, integer, optional_text, parsed, text

VERSION = 1


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """One member of the stored generation."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    subscription: bytes
    assignment: bytes

    @classmethod
    def of(cls, member: Member, protocol_name: str | None, assignment: bytes) -> "MemberRecord":
        """A member of a group with this protocol, with this assignment."""
        return cls(
            id=member.id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            session_timeout_ms=member.session_timeout_ms,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            subscription=member.metadata(protocol_name),
            assignment=assignment,
        )

    def restored(self, protocol_name: str | None) -> Member:
        """The member, in a group with this protocol."""
        return Member(
            id=self.id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            protocols=((protocol_name or "", self.subscription),),
            assignment=self.assignment,
        )


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """One generation of a group, or an empty group."""

    generation: int
    protocol_type: str | None
    protocol_name: str | None = None
    leader: str | None = None
    since_ms: int = 0
    """When the group came into this state: the retention of an empty group's offsets counts from here."""
    members: tuple[MemberRecord, ...] = field(default=())


def encode(record: GroupRecord) -> bytes:
    """The bytes of a record."""
    value = {
        "v": VERSION,
        "generation": record.generation,
        "type": record.protocol_type,
        "protocol": record.protocol_name,
        "leader": record.leader,
        "since": record.since_ms,
        "members": [_member(one) for one in record.members],
    }
    return json.dumps(value, separators=(",", ":")).encode()


def decode(data: bytes) -> GroupRecord:
    """The record in these bytes; BadRecord when there is none."""
    try:
        value = parsed(data)
        if value["v"] != VERSION:
            raise BadRecord(f"group record of version {value['v']}, this bridge knows {VERSION}")
        return GroupRecord(
            generation=integer(value["generation"], 32),
            protocol_type=optional_text(value["type"]),
            protocol_name=optional_text(value["protocol"]),
            leader=optional_text(value["leader"]),
            since_ms=integer(value["since"]),
            members=tuple(_read_member(one) for one in value["members"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise BadRecord(f"not a group record: {error!r}") from None


def _member(member: MemberRecord) -> dict[str, Any]:
    return {
        "id": member.id,
        "instance": member.instance_id,
        "client": member.client_id,
        "host": member.client_host,
        "session": member.session_timeout_ms,
        "rebalance": member.rebalance_timeout_ms,
        "subscription": base64.b64encode(member.subscription).decode(),
        "assignment": base64.b64encode(member.assignment).decode(),
    }


def _read_member(value: dict[str, Any]) -> MemberRecord:
    return MemberRecord(
        id=text(value["id"]),
        instance_id=optional_text(value["instance"]),
        client_id=text(value["client"]),
        client_host=text(value["host"]),
        session_timeout_ms=integer(value["session"], 32),
        rebalance_timeout_ms=integer(value["rebalance"], 32),
        subscription=base64.b64decode(value["subscription"], validate=True),
        assignment=base64.b64decode(value["assignment"], validate=True),
    )
