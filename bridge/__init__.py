"""A stand-alone proxy that lets every Kafka client use an unmodified Apache Pulsar cluster."""

__version__ = "1.0.0"
