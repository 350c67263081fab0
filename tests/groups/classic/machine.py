"""A group's state machine with what a test needs around it: a clock, tickets, and a store that does as it is told."""

from itertools import count
from typing import Any

from bridge.errors import KafkaError
from bridge.groups.classic.events import Answer, ClassicGroupState, GroupConfig, Join, Joined, Leave, Save, Sync, Synced
from bridge.groups.classic.records import GroupRecord
from bridge.groups.classic.state import ClassicGroup
from bridge.kafka.error_codes import ErrorCode

NONE = ErrorCode.NONE
RANGE = (("range", b"r"), ("roundrobin", b"rr"))
SESSION = 10.0
REBALANCE = 60.0
DELAY = 3.0


class Ticket:
    """A request that waits, or has its answer."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.answer: Any = None

    def __repr__(self) -> str:
        return f"<{self.name}: {self.answer}>"

    @property
    def held(self) -> bool:
        return self.answer is None

    @property
    def error(self) -> ErrorCode:
        assert self.answer is not None, f"{self.name} is held"
        error = self.answer.error
        assert isinstance(error, ErrorCode)
        return error

    @property
    def joined(self) -> Joined:
        assert isinstance(self.answer, Joined)
        return self.answer

    @property
    def synced(self) -> Synced:
        assert isinstance(self.answer, Synced)
        return self.answer


class Machine:
    """One group."""

    def __init__(self, group: ClassicGroup | None = None) -> None:
        self.group = group or ClassicGroup("g", GroupConfig(initial_delay=DELAY))
        self.now = 1000.0
        self.saves: list[Save] = []
        self.tickets: list[Ticket] = []
        self.store_at_once = True
        self._ids = count(1)

    @property
    def state(self) -> ClassicGroupState:
        return self.group.state

    @property
    def members(self) -> set[str]:
        return {member.id for member in self.group.members}

    @property
    def holds_requests(self) -> bool:
        return any(member.joining is not None or member.syncing is not None for member in self.group.members)

    def join(self, member_id: str = "", **changes: Any) -> Ticket:
        """A JoinGroup as of a version before 4 (no second join), unless `id_required`."""
        values: dict[str, Any] = {
            "new_id": f"m{next(self._ids)}",
            "instance_id": None,
            "client_id": "client",
            "client_host": "/127.0.0.1",
            "session_timeout_ms": int(SESSION * 1000),
            "rebalance_timeout_ms": int(REBALANCE * 1000),
            "protocol_type": "consumer",
            "protocols": RANGE,
            "id_required": False,
            **changes,
        }
        ticket = self._ticket(f"join {member_id or values['new_id']}")
        self.group.join(Join(member_id=member_id, **values), ticket, self.now)
        self.settle()
        return ticket

    def sync(self, member_id: str, assignments: dict[str, bytes] | None = None, **changes: Any) -> Ticket:
        values: dict[str, Any] = {
            "instance_id": None,
            "generation": self.group.generation,
            "protocol_type": None,
            "protocol_name": None,
            **changes,
        }
        ticket = self._ticket(f"sync {member_id}")
        self.group.sync(Sync(member_id=member_id, assignments=assignments or {}, **values), ticket, self.now)
        self.settle()
        return ticket

    def heartbeat(self, member_id: str, generation: int | None = None, instance_id: str | None = None) -> ErrorCode:
        if generation is None:
            generation = self.group.generation
        error = self.group.heartbeat(member_id, instance_id, generation, self.now)
        assert not self.group.take_effects()
        return error

    def commit(self, member_id: str, generation: int | None = None, instance_id: str | None = None) -> ErrorCode:
        if generation is None:
            generation = self.group.generation
        try:
            self.group.check_commit(member_id, instance_id, generation, self.now)
        except KafkaError as error:
            return ErrorCode(error.code)
        return ErrorCode.NONE

    def leave(self, *leaving: Leave | str) -> list[ErrorCode]:
        errors = self.group.leave([one if isinstance(one, Leave) else Leave(one) for one in leaving], self.now)
        self.settle()
        return errors

    def stored(self, error: ErrorCode = NONE) -> GroupRecord:
        """Let the oldest write end."""
        save = self.saves.pop(0)
        self.group.saved(save.number, error, self.now)
        self.settle()
        return save.record

    def kill(self, error: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        self.group.kill(error)
        self.settle()

    def pass_time(self, seconds: float, *alive: str) -> None:
        """Let time pass as the timers would; those alive send heartbeats every second."""
        end = self.now + seconds
        while self.now < end:
            step = min(end, self.group.deadline(), self.now + 1.0)
            self.now = max(step, self.now)
            for member_id in alive:
                if member_id in self.group.members:
                    self.heartbeat(member_id)
            if self.group.deadline() <= self.now:
                self.group.expire(self.now)
                self.settle()

    def settle(self) -> None:
        for effect in self.group.take_effects():
            if isinstance(effect, Answer):
                ticket = effect.ticket
                assert isinstance(ticket, Ticket)
                assert ticket.held, f"{ticket} is answered twice: {effect.answer}"
                ticket.answer = effect.answer
            else:
                self.saves.append(effect)
        while self.saves and self.store_at_once:
            self.stored()

    def _ticket(self, name: str) -> Ticket:
        ticket = Ticket(name)
        self.tickets.append(ticket)
        return ticket

    # ---- where most scenarios begin ----------------------------------------------------------------------------------

    def formed(self, count: int = 2, **changes: Any) -> list[str]:
        """A stable group of so many members, the leader first."""
        tickets = [self.join(**changes) for _ in range(count)]
        return self._synced(tickets)

    def formed_statically(self, *instances: str, **changes: Any) -> list[str]:
        """A stable group of static members."""
        return self._synced([self.join(instance_id=instance, **changes) for instance in instances])

    def _synced(self, tickets: list[Ticket]) -> list[str]:
        self.pass_time(DELAY * (len(tickets) + 1))
        ids = [ticket.joined.member_id for ticket in tickets]
        for member_id in ids[1:]:
            self.sync(member_id)
        self.sync(ids[0], {member_id: member_id.encode() for member_id in ids})
        assert self.state is ClassicGroupState.STABLE
        return ids
