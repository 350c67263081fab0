"""Clients at work move from a real Kafka to the bridge, and home again: docs/cut-over.md, walked."""
