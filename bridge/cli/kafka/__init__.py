"""Commands that ask a Kafka: this bridge or another endpoint. librdkafka is their client, nothing of the bridge."""
