"""The pipeline: in one Spark session, against a real bridge and a real Kafka."""
