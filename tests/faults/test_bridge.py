"""The bridge itself is killed, drained, stopped and started where it cannot work."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer

from bridge.errors import StartupError
from bridge.node.orphans import Guard
from bridge.standalone.ports import any_free
from tests.faults.checker import load
from tests.faults.processes import let_pass
from tests.faults.topics import create, wait_for
from tests.support.bridges import BridgeChild, settings_for
from tests.support.freezing import frozen
from tests.support.login import Login
from tests.support.pulsar import PrivatePulsar, PulsarAddress


def test_nothing_acknowledged_is_lost_when_the_bridge_is_killed(bridge_child: BridgeChild, topic: str) -> None:
    with load(bridge_child.kafka, topic) as running:
        running.more(100)
        bridge_child.kill()
        bridge_child.start()
        gap = running.recovery()
        running.more(60)
        verdict = running.stop()
    print("figures:", verdict, "recovery:", round(gap, 2))
    # what was stored and not answered, its writer sends again: to be recognised when idempotence is built
    verdict.check(duplicates=True)


def test_a_stopping_bridge_answers_what_it_has_received(bridge_child: BridgeChild, topic: str) -> None:
    with load(bridge_child.kafka, topic) as running:
        running.more(60)
        bridge_child.stop()
        bridge_child.start()
        gap = running.recovery()
        verdict = running.stop()
    print("figures:", verdict, "recovery:", round(gap, 2))
    verdict.check()  # no duplicates: nothing that was received went unanswered


def test_a_producer_that_never_repeats_meets_no_error_in_a_drain(
    broker: PrivatePulsar, bridge_child: BridgeChild, topic: str
) -> None:
    create(bridge_child.kafka, topic)
    outcomes: list[KafkaError | None] = []
    unsent: list[int] = []

    def done(error: KafkaError | None, _: Message) -> None:
        outcomes.append(error)

    def told(statistics: str) -> None:
        """What the client has not handed to its sockets yet."""
        told = json.loads(statistics)
        queues = [one for of in told["topics"].values() for one in of["partitions"].values()]
        waiting = sum(one["msgq_cnt"] + one["xmit_msgq_cnt"] for one in queues)
        unsent.append(waiting + sum(one["outbuf_cnt"] for one in told["brokers"].values()))

    def is_sent() -> bool:
        """The first statistics may be of a moment ago."""
        producer.poll(0)
        return unsent[-2:] == [0, 0]

    producer = Producer({
        "bootstrap.servers": bridge_child.kafka, "retries": 0, "linger.ms": 0, "log_level": 0,
        "statistics.interval.ms": 20, "stats_cb": told,
    })  # fmt: skip
    producer.produce(topic, b"first", on_delivery=done)
    assert producer.flush(10) == 0
    with frozen(broker.pid):  # nothing is answered before the end comes
        for number in range(50):
            producer.produce(topic, b"%d" % number, on_delivery=done)
        producer.poll(0)
        unsent.clear()
        wait_for(is_sent, "the client does not send")
        assert outcomes == [None]
        os.kill(bridge_child.pid, signal.SIGTERM)
        output = bridge_child.process.child.output
        wait_for(lambda: "= draining" in output.read_text(errors="replace"), "the bridge does not drain")
    assert bridge_child.process.child.wait(15), "the bridge does not drain"
    assert bridge_child.process.child.exit_description() == "exited with 0"
    assert producer.flush(10) == 0  # what came before the end is told now
    assert outcomes == [None] * 51


def test_a_stopped_bridge_is_a_pause(bridge_child: BridgeChild, topic: str) -> None:
    with load(bridge_child.kafka, topic) as running:
        with frozen(bridge_child.pid):
            let_pass(6)
        gap = running.recovery()
        verdict = running.stop()
    print("figures:", verdict, "recovery:", round(gap, 2))
    verdict.check()


def refused_start(at: PulsarAddress, namespace: str, guard: Guard, tmp_path: Path, **overrides: Any) -> str:
    """What a bridge says that does not start; it must say it and end by itself."""
    child = BridgeChild(settings_for(at, namespace, overrides), tmp_path, guard)
    with pytest.raises(StartupError):
        child.start()
    assert child.process.child.exit_description() == "exited with 1"
    said = child.process.last_lines(20)
    assert "Traceback" not in said, said
    return said


def test_without_the_index_settings_the_start_says_what_to_set(
    private_pulsar: Callable[..., PrivatePulsar], guard: Guard, tmp_path: Path
) -> None:
    bare = private_pulsar(
        {"exposingBrokerEntryMetadataToClientEnabled": "false", "brokerEntryMetadataInterceptors": ""}
    )
    said = refused_start(bare, bare.create_namespace(), guard, tmp_path)
    interceptor = "org.apache.pulsar.common.intercept.AppendIndexMetadataInterceptor"
    assert f"brokerEntryMetadataInterceptors={interceptor}" in said
    assert "exposingBrokerEntryMetadataToClientEnabled=true" in said


def test_zero_retention_is_set_or_told(broker: PrivatePulsar, guard: Guard, tmp_path: Path) -> None:
    namespace = broker.create_namespace(retention=False)
    broker.admin("POST", f"namespaces/{namespace}/retention", {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0})
    said = refused_start(broker, namespace, guard, tmp_path, retention={"ensure": False})
    assert f"pulsar-admin namespaces set-retention {namespace} --time 10080m --size -1" in said
    child = BridgeChild(settings_for(broker, namespace), tmp_path, guard)
    child.start()
    child.stop()
    expected = {"retentionTimeInMinutes": 10080, "retentionSizeInMB": -1}
    assert broker.admin("GET", f"namespaces/{namespace}/retention") == expected


def test_without_the_right_to_set_retention_the_start_says_what_to_run(
    private_pulsar: Callable[..., PrivatePulsar], guard: Guard, tmp_path: Path
) -> None:
    login = Login()
    pulsar = private_pulsar(login.broker_settings)
    namespace = pulsar.create_namespace(retention=False)
    pulsar.admin("POST", f"namespaces/{namespace}/permissions/bridge", ["produce", "consume"])
    said = refused_start(pulsar, namespace, guard, tmp_path, pulsar={"token": login.token("bridge")})
    assert f"pulsar-admin namespaces set-retention {namespace} --time 10080m --size -1" in said
    assert pulsar.admin("GET", f"namespaces/{namespace}/retention") is None


def test_a_tenants_administrator_needs_no_more_rights(
    private_pulsar: Callable[..., PrivatePulsar], guard: Guard, tmp_path: Path, topic: str
) -> None:
    login = Login()
    pulsar = private_pulsar(login.broker_settings)
    pulsar.admin("PUT", "tenants/apps", {"adminRoles": ["bridge"], "allowedClusters": ["standalone"]})
    pulsar.admin("PUT", "namespaces/apps/kafka")
    settings = settings_for(pulsar, "apps/kafka", {"pulsar": {"token": login.token("bridge")}})
    child = BridgeChild(settings, tmp_path, guard)
    child.start()
    try:
        create(child.kafka, topic)
        producer = Producer({"bootstrap.servers": child.kafka, "enable.idempotence": True})
        producer.produce(topic, b"a record")
        assert producer.flush(30) == 0
        group = {"bootstrap.servers": child.kafka, "group.id": "a group", "auto.offset.reset": "earliest"}
        consumer = Consumer(group)
        consumer.subscribe([topic])
        (message,) = consumer.consume(1, 30)
        assert message.value() == b"a record"
        assert consumer.commit(asynchronous=False)[0].offset == 1
        consumer.close()
    finally:
        child.stop()


def test_without_a_pulsar_the_start_says_where_it_looked(guard: Guard, tmp_path: Path) -> None:
    port = any_free()
    nowhere = PulsarAddress(f"pulsar://127.0.0.1:{port}", f"http://127.0.0.1:{any_free({port})}")
    said = refused_start(nowhere, "public/default", guard, tmp_path)
    assert f"pulsar.service_url pulsar://127.0.0.1:{port}" in said
