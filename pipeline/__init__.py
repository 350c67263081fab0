"""Spark jobs that move, check and describe the records of Kafka endpoints, the bridge among them."""
