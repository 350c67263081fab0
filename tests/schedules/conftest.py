"""Options and fixtures of the schedule explorer."""

from collections.abc import Callable, Iterator

import pytest

from tests.schedules.explorer import Plan, Runner
from tests.schedules.loop import Order
from tests.support.effort import examples


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("schedules", "the schedule explorer (tests/schedules)")
    group.addoption("--schedule-factor", type=float, default=1.0, help="run so many times as many seeds as usual")
    group.addoption("--schedule-order", default="asyncio", choices=[order.value for order in Order])
    group.addoption("--schedule-events", type=int, default=120, help="how many events a failure shows")
    group.addoption("--schedule-failures", type=int, default=3, help="so many failed seeds of a scenario are enough")


@pytest.fixture
def schedule_plan(request: pytest.FixtureRequest) -> Callable[[int], Plan]:
    """Which seeds a scenario runs with, which usually is run so many times."""
    option = request.config.getoption
    seed, factor = option("--schedule-seed", default=None), option("--schedule-factor", default=1.0)
    order = Order(option("--schedule-order", default="asyncio"))
    events, failures = option("--schedule-events", default=120), option("--schedule-failures", default=3)

    def plan(count: int) -> Plan:
        seeds = tuple(range(max(int(examples(count) * factor), 1))) if seed is None else (seed,)
        return Plan(seeds, order, events, failures)

    return plan


@pytest.fixture(scope="session")
def schedule_runner() -> Iterator[Runner]:
    """Runs them."""
    runner = Runner()
    yield runner
    runner.close()
