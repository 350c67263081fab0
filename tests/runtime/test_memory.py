import subprocess
import sys

_ROUNDS, _BUFFERS, _SIZE = 50, 40, 128 * 1024
_ALLOCATE = f"""
import resource, sys
if "keep" in sys.argv:
    from bridge.runtime.memory import keep_freed_memory
    keep_freed_memory()
[bytes({_SIZE}) for _ in range({_BUFFERS})]  # the heap has grown to what comes
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({_ROUNDS}):
    [b"x" * {_SIZE} for _ in range({_BUFFERS})]
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
_PAGES = _ROUNDS * _BUFFERS * _SIZE // 4096


def page_faults(*arguments: str) -> int:
    command = [sys.executable, "-c", _ALLOCATE, *arguments]
    return int(subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout)


def test_buffers_come_from_memory_that_is_there() -> None:
    assert page_faults("keep") < _PAGES // 10


def test_without_it_the_c_library_gives_memory_back_each_time() -> None:
    assert page_faults() > _PAGES // 2  # else the module is of no use any more


_COLLECT = """
import gc, sys
import bridge.node.server
if "leave" in sys.argv:
    from bridge.runtime.memory import freeze_startup_objects
    freeze_startup_objects()
print(len(gc.get_objects()))
"""


def looked_at(*arguments: str) -> int:
    command = [sys.executable, "-c", _COLLECT, *arguments]
    return int(subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout)


def test_a_started_process_is_not_looked_through_for_cycles_again() -> None:
    assert looked_at("leave") < looked_at() // 100
