"""Benchmarks: how fast the bridge and its parts are."""
