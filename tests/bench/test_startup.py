from __future__ import annotations

import socket
import threading
from collections.abc import Callable

from bench.startup import Start, as_table, measured
from bridge.standalone.ports import any_free
from tests.support.bridges import BridgeChild
from tests.support.servers import KafkaServer, answers


def test_a_port_that_is_closed_or_hangs_up_does_not_answer() -> None:
    assert not answers(f"127.0.0.1:{any_free()}")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            server.accept()[0].close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        assert not answers(f"127.0.0.1:{server.getsockname()[1]}")
        thread.join()


def test_a_start_is_measured_and_stopped(bridge_process: Callable[..., BridgeChild]) -> None:
    child = bridge_process()
    assert answers(child.kafka)
    child.stop()
    start = measured(KafkaServer(child.process.child, child.process.launch, child.kafka))
    assert start.cpu > 0 and start.seconds > 0
    assert not child.process.child.running


def test_the_medians_stand_side_by_side() -> None:
    table = as_table([Start(0.3, 0.2), Start(0.2, 0.1), Start(9.0, 0.3)], [Start(3.0, 4.0)])
    assert table.rows == [["seconds until it answers", 0.3, 3.0, 0.1], ["its processor time, s", 0.2, 4.0, 0.05]]
