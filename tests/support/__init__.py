"""What several test packages share: processes, clients and brokers."""
