"""Kafka's topics as Pulsar has them: names, ids, configs, creation and deletion."""
