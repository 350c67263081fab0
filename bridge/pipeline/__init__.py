"""Spark jobs that move, check and describe the records of Kafka endpoints, such as the bridge."""
