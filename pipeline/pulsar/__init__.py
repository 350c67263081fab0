"""A small reader of Pulsar topics that shares nothing with the bridge, so that it can bear witness about it."""
