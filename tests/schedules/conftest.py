"""Options and fixtures of the schedule explorer."""

from collections.abc import Callable, Iterator

import pytest

from tests.schedules.explorer import Plan, Runner
from tests.schedules.loop import Order
from tests.support.effort import seeds


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("schedules", "the schedule explorer (tests/schedules)")
    group.addoption("--schedule-order", default="asyncio", choices=[order.value for order in Order])
    group.addoption("--schedule-events", type=int, default=120, help="how many events a failure shows")
    group.addoption("--schedule-failures", type=int, default=3, help="so many failed seeds of a scenario are enough")


@pytest.fixture
def schedule_plan(request: pytest.FixtureRequest) -> Callable[[int], Plan]:
    """Which seeds a scenario runs with, which usually is run so many times."""
    option = request.config.getoption
    seed = option("--schedule-seed", default=None)
    order = Order(option("--schedule-order", default="asyncio"))
    events, failures = option("--schedule-events", default=120), option("--schedule-failures", default=3)

    def plan(count: int) -> Plan:
        tried = tuple(range(seeds(count))) if seed is None else (seed,)
        return Plan(tried, order, events, failures)

    return plan


@pytest.fixture(scope="session")
def schedule_runner() -> Iterator[Runner]:
    """Runs them."""
    runner = Runner()
    yield runner
    runner.close()
