"""What an API is given: its request's client, the broker, who may do what, who leads what."""
