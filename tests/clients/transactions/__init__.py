"""What the tests of transactions share: producers and readers of each client family, and one request by request."""
