"""What is done with sockets, TLS and HTTP on any side of the bridge."""
