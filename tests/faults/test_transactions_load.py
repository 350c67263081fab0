"""Transactions under load on a real Kafka, with nothing killed: the checker finds nothing wrong."""

from __future__ import annotations

import pytest

from tests.faults.processes import let_pass
from tests.faults.transactions_checker import Outcome, check, summary
from tests.faults.transactions_load import transactions_load
from tests.support.kafka_broker import KafkaBroker

SECONDS = 10.0


@pytest.mark.soak  # the control of what is run on the bridge with faults
@pytest.mark.timeout(180)
def test_nothing_is_wrong_on_kafka(real_kafka: KafkaBroker, topic: str) -> None:
    with transactions_load(real_kafka.kafka, topic) as load:
        let_pass(SECONDS)
        load.more()
        history = load.stop()
    anomalies = check(history)
    assert not anomalies, summary(anomalies)
    assert {one.outcome for one in history.transactions} >= {Outcome.COMMITTED, Outcome.ABORTED}
    assert any(one.copied for one in history.transactions)
    assert history.offsets
