"""Stored entries on their way to Kafka clients: found, read, converted and kept in memory."""
