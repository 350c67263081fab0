"""Scenes by what they attack: requests, connections, log-ins, groups."""
