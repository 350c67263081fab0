"""A small reader of Pulsar topics that shares no code with the bridge, so that it can check it."""
