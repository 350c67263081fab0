"""Listening sockets: they accept clients, end TLS, and count, turn away and drain the connections."""
