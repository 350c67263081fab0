"""Kafka batches on their way into Pulsar: prepared, sent, and given their offsets."""
