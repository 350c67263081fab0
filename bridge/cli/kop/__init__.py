"""`bridge import kop`: groups of Kafka-on-Pulsar go on at the offsets that they committed there."""
