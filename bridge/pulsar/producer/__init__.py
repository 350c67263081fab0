"""Sending entries to a topic: in order, through every reconnect, each matched with its receipt."""

from bridge.pulsar.producer.producer import Producer
from bridge.pulsar.producer.send import REFUSALS, Send

__all__ = ["REFUSALS", "Producer", "Send"]
