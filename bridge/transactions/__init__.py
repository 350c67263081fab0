"""Transactions: who coordinates them, what is recorded of them, and what every node knows of their outcomes."""
