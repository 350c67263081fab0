"""Pulsar's policies, each on a real broker, as Kafka clients see them: docs/policies.md has the table."""
