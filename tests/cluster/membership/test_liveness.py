"""When a silent node counts as gone."""

from bridge.cluster.membership.liveness import Liveness
from bridge.cluster.membership.timing import Timing

TIMING = Timing()
LONG = TIMING.hung + 100.0


def test_after_a_jump_of_log_time_each_watcher_still_waits_its_own_time() -> None:
    first, later = Liveness(TIMING, 0.0, -LONG), Liveness(TIMING, 0.0, -LONG)
    for watcher in (first, later):
        watcher.heard("controller", 0.0)
        watcher.echoed(LONG)  # Pulsar stood still: the own record comes back late, and the silence is long at once
    delay = 2 * TIMING.succession_step
    assert first.judge("controller", LONG, 0.0, proof=True).gone
    assert not later.judge("controller", LONG, delay, proof=True).gone
    assert later.judge("controller", LONG + delay, delay, proof=True).gone


def test_a_node_that_is_heard_meanwhile_is_not_gone() -> None:
    watcher = Liveness(TIMING, 0.0, -LONG)
    watcher.heard("controller", 0.0)
    watcher.echoed(LONG)
    delay = TIMING.succession_step
    assert not watcher.judge("controller", LONG, delay, proof=True).gone
    watcher.heard("controller", LONG)
    assert not watcher.judge("controller", LONG + delay, delay, proof=True).gone
