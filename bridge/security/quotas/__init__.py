"""Client quotas as Kafka has them: whose they are, which one counts, and what is used of each. A node's own, no I/O."""
