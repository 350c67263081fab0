"""A model of Pulsar for the schedule explorer: one broker with its metadata, its ledgers and its admin API.

It speaks Pulsar's protocol by the bridge's own framing, takes for everything a time that the seed draws, and never
runs in the event loop of the bridge. `test_contract` holds it to a real Pulsar.
"""

from tests.schedules.broker.rest import ModelAdmin
from tests.schedules.broker.server import HOST, PORT, Broker

__all__ = ["HOST", "PORT", "Broker", "ModelAdmin"]
