"""A real Pulsar and the bridge in front of it, started on this machine for first runs, tests and benchmarks."""
