"""Kafka topics and partition logs as Pulsar holds them."""
