"""A Pulsar of several brokers and bookies on this machine."""
