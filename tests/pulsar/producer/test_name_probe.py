"""Whether a producer's name is in use, asked of a real Pulsar."""

from bridge.config import PulsarSettings
from bridge.pulsar import PulsarClient
from bridge.telemetry.metrics import PulsarMetrics


async def test_a_name_is_busy_while_its_producer_lives(topic: str, settings: PulsarSettings) -> None:
    asking, holding = PulsarClient(settings, PulsarMetrics()), PulsarClient(settings, PulsarMetrics())
    try:
        producer = holding.producer(topic, name="n")
        await producer.opened()
        assert not await asking.is_name_free(topic, "n")
        assert producer.attached
        assert await asking.is_name_free(topic, "another")
        await producer.close()
        assert await asking.is_name_free(topic, "n")
        assert await asking.is_name_free(topic, "n")  # the question holds no name
    finally:
        await asking.close()
        await holding.close()
