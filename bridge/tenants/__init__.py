"""Namespaces of Pulsar beside the bridge's own: what each has of its own, opened with its first client."""
