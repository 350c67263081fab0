"""Streams groups (KIP-1071): the coordinator, not the client, gives out a Kafka Streams application's tasks."""
