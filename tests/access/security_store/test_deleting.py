"""What DeleteAcls and DescribeAcls cost where there are many entries: a stub keeps them, without a Pulsar."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bridge.access.security_store.store import SecurityStore
from bridge.apis import delete_acls, describe_acls
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.session import Session
from bridge.runtime import futures
from bridge.security.acls import AccessControlEntry, AclFilter, Operation, PatternType, Permission, ResourceType
from bridge.security.records import Kept

_READ = AccessControlEntry(
    ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:alice", "*", Operation.READ, Permission.ALLOW
)
_SESSION = Session(1, "10.0.0.1:1", "")
_ANY: dict[str, Any] = {
    "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None,
    "host_filter": None, "operation": 1, "permission_type": 1,
}  # fmt: skip


class _Bench:
    """So many entries, and what was stored."""

    def __init__(self, entries: int) -> None:
        kept = dict.fromkeys(_READ._replace(name=f"orders-{number}") for number in range(entries))
        self.stored: list[Kept] = []
        self.store = SecurityStore.__new__(SecurityStore)
        self.store._log = cast(
            Any, SimpleNamespace(state=SimpleNamespace(entries=kept), append=self._append, catch_up=self._nothing)
        )
        self.broker = cast(Any, SimpleNamespace(acls=self.store))

    async def _append(self, records: Sequence[Kept]) -> None:
        self.stored += records

    async def _nothing(self) -> None:
        pass

    async def delete(self, filters: int) -> list[tuple[int, int]]:
        """The code, and how many each filter found."""
        request = delete_acls.Request(filters=[delete_acls.Filter(**_ANY)] * filters)
        answer = await delete_acls.handle(request, self.broker, _SESSION)
        assert len(list(delete_acls.audit(request, answer))) == sum(
            len(one.matching_acls) for one in answer.filter_results
        )
        return [(one.error_code, len(one.matching_acls)) for one in answer.filter_results]


async def test_filters_that_find_the_same_again_and_again_are_refused_and_nothing_is_deleted() -> None:
    bench = _Bench(100)
    assert await bench.delete(201) == [(ErrorCode.INVALID_REQUEST, 0)] * 201
    assert bench.stored == []
    assert await bench.delete(200) == [(0, 100)] * 200
    assert len(bench.stored) == 100


async def test_equal_filters_look_at_the_entries_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, looked = _Bench(10), 0
    matches = AclFilter.matches

    def counted(self: AclFilter, entry: AccessControlEntry) -> bool:
        nonlocal looked
        looked += 1
        return matches(self, entry)

    monkeypatch.setattr(AclFilter, "matches", counted)
    assert await bench.delete(1000) == [(0, 10)] * 1000
    assert looked == 10


@pytest.mark.parametrize("asks", ["delete", "describe"])
async def test_others_run_while_many_entries_are_looked_at(asks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bench, turns, began = _Bench(5000), 0, 0

    async def turn() -> None:
        nonlocal turns
        turns += 1

    monkeypatch.setattr(futures, "yield_turn", turn)
    if asks == "delete":
        assert await bench.delete(1) == [(0, 5000)]
        began = 5000 // 512
    else:
        answer = await describe_acls.handle(describe_acls.Request(**_ANY), bench.broker, _SESSION)
        assert len(answer.resources) == 5000
    assert turns >= 5000 // 32 + began
