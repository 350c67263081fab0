"""Who a client is and what it may do: the mechanisms of log-in, where their credentials come from, principals."""
