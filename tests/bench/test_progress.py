"""The line of `make bench`: parts, and time left by what they took before."""

from collections.abc import Callable

from bench.progress import PartsProgress


def clock(*times: float) -> Callable[[], float]:
    left = iter(times)
    return lambda: next(left)


def test_time_left_is_by_what_parts_took_the_last_time() -> None:
    progress = PartsProgress(["a", "b"], {"a": 60.0, "b": 180.0}, clock(0.0, 0.0, 30.0, 60.0, 60.0, 70.0))
    progress.begin("a")
    assert progress.text() == "[===                     ]  12 %  0 of 2 parts, a for 30 s, about 3 min 30 s left"
    progress.end()
    progress.begin("b")
    assert progress.text() == "[=======                 ]  29 %  1 of 2 parts, b for 10 s, about 2 min 50 s left"


def test_of_a_part_that_was_never_measured_those_before_it_tell() -> None:
    progress = PartsProgress(["a", "b"], {}, clock(0.0, 0.0, 5.0, 10.0, 10.0, 15.0))
    progress.begin("a")
    assert progress.text() == "[                        ]   0 %  0 of 2 parts, a for 5 s"
    progress.end()
    progress.begin("b")
    assert progress.text() == "[==================      ]  75 %  1 of 2 parts, b for 5 s, about 5 s left"
