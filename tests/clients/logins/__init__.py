"""Every way to log in over TLS, with every client, right and wrong: on the bridge and (`--control`) on a real Kafka."""
