"""One process of the bridge: what it is made of, started, drained and stopped."""
