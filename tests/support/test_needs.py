"""Tests are marked by the servers that their fixtures start, however the fixture is reached."""

import pytest

from tests.support import needs

INI = """
[pytest]
asyncio_default_fixture_loop_scope = function
markers =
    kafka: x
    pulsar: x
    spark: x
"""
CONFTEST = """
import pytest
from tests.support import needs

def pytest_collection_modifyitems(items):
    needs.mark(items)

@pytest.fixture
def new_pulsar(): ...

@pytest.fixture
def spark(): ...

@pytest.fixture
def bridge(new_pulsar): ...

@pytest.fixture(params=["memory", "bridge"])
def store(request):
    return request.param if request.param == "memory" else request.getfixturevalue(request.param)

@pytest.fixture
def topic(): ...
"""
TESTS = """
import pytest

def test_nothing(tmp_path): ...
def test_directly(new_pulsar): ...
def test_through_a_fixture(bridge): ...
def test_two(bridge, spark): ...
def test_by_parameter(store): ...

@pytest.mark.usefixtures("bridge")
def test_by_mark(): ...

@pytest.mark.parametrize("word", ["bridge"])
def test_a_word(word): ...

@pytest.mark.parametrize("store", ["bridge"], indirect=True)
def test_indirectly(store): ...

class TestOfAClass:
    @pytest.fixture(autouse=True)
    def start(self, bridge): ...
    def test_by_class(self): ...
"""


def names(pytester: pytest.Pytester, markers: str) -> set[str]:
    found = pytester.inline_run("-m", markers, "-p", "no:cacheprovider")
    passed, skipped, failed = found.listoutcomes()
    assert not skipped and not failed
    return {report.nodeid.rpartition("::")[2].removeprefix("test_") for report in passed}


def test_markers_follow_the_fixtures(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    unmarked = {"nothing", "a_word[bridge]", "by_parameter[memory]"}
    on_pulsar = {
        "directly", "through_a_fixture", "two", "by_parameter[bridge]", "by_mark", "indirectly[bridge]", "by_class",
    }  # fmt: skip
    assert names(pytester, "not (pulsar or spark or kafka)") == unmarked
    assert names(pytester, "pulsar") == on_pulsar
    assert names(pytester, "pulsar and spark") == {"two"}


def test_the_fixtures_are_there(request: pytest.FixtureRequest) -> None:
    manager = request.session._fixturemanager
    missing = {name for name in needs.MARKERS if not manager.getfixturedefs(name, request.node)}
    assert missing == {"spark", "spark_jars"}  # of tests/pipeline alone
