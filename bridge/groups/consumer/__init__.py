"""The new consumer group protocol (KIP-848)."""
