"""The Kafka wire format: bytes in and out, without I/O or clocks."""
