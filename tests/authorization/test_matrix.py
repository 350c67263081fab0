"""Every API by every right: each cell is what a real Kafka with the same entries tells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from bridge.apis import load
from bridge.node.orphans import Guard
from tests.authorization.asked.row import Row
from tests.authorization.cells import MODES, ROWS, Matrix, matrix_of, read, recorded, some
from tests.authorization.differences import DIFFERENCES, Difference, expected
from tests.authorization.rights import NOTHING, RIGHTS, SUPER
from tests.authorization.servers import bridge, real_kafka
from tests.authorization.world import TOPICS

RECORDED = recorded()
KAFKA = {
    mode: {row.name: read(RECORDED[mode][row.name], row.asked_by(rights)) for row in ROWS}
    for mode, rights in MODES.items()
}
MatrixOf = Callable[[str], Matrix]
_SEEING = (
    "rest-and-TOPIC",
    "deny-TOPIC",
    "all-but-",
    "literal-",
    "every-",
    "prefix-",
    "longer-",
    "from-",
    "everything",
)


@pytest.fixture(
    scope="module", params=["pulsar", pytest.param("new_kafka", marks=pytest.mark.soak)], ids=["bridge", "control"]
)
def is_bridge(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "pulsar")


@pytest.fixture(scope="module")
def started(
    request: pytest.FixtureRequest, is_bridge: bool, guard: Guard, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MatrixOf]:
    """Start a server of a mode when it is first asked for."""
    there: dict[str, Matrix] = {}
    with ExitStack() as running:

        def start(mode: str) -> Matrix:
            if mode not in there:
                rights, permissive = MODES[mode], mode == "permissive"
                if is_bridge:
                    server: Any = bridge(request.getfixturevalue("pulsar"), rights, permissive=permissive)
                else:
                    server = real_kafka(tmp_path_factory.mktemp(mode), guard, rights, permissive=permissive)
                address = running.enter_context(server)
                there[mode] = running.enter_context(matrix_of(address, rights))
            return there[mode]

        yield start


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_answer_of_kafka_is_given_to_some(started: MatrixOf, is_bridge: bool, row: Row, mode: str) -> None:
    kafka = KAFKA[mode]
    wanted = expected(row.name, kafka) if is_bridge else kafka[row.name]
    names = some(kafka[row.name])
    assert started(mode).told(row, names) == {name: wanted[name] for name in names}


@pytest.mark.soak
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_principal_is_told_what_kafka_tells_it(started: MatrixOf, is_bridge: bool, row: Row, mode: str) -> None:
    kafka = KAFKA[mode]
    assert started(mode).told(row) == (expected(row.name, kafka) if is_bridge else kafka[row.name])


@pytest.mark.parametrize("right", [*(one.name for one in RIGHTS if one.name.startswith(_SEEING)), NOTHING.name, SUPER])
def test_a_pattern_fits_what_its_principal_is_told_of_all_topics(started: MatrixOf, right: str) -> None:
    matrix = started("usual")
    listed = matrix.listed(right)
    for pattern, fits in {".*": set(TOPICS), "mine-.*": {TOPICS[0]}, "other-topic": {TOPICS[1]}}.items():
        assert matrix.fitting(right, pattern, listed & fits) in (None, listed & fits)


def test_every_api_is_asked() -> None:
    assert {row.api.name for row in ROWS} == {api.name for api in load().values()}
    assert [list(RECORDED[mode]) for mode in MODES] == [[row.name for row in ROWS]] * len(MODES)


@pytest.mark.parametrize("one", DIFFERENCES, ids=lambda one: f"{one.rows} {one.kafka}")
def test_a_difference_is_one(one: Difference) -> None:
    """Each cell is compared, so what changes none is no difference."""
    cells = KAFKA["usual"]
    about = [row for row in cells if one.applies(row)]
    assert any(one.applied(cells[one.like or row][right]) != cells[row][right] for row in about for right in cells[row])
    assert one.why
