"""Share groups (KIP-932) at the leaders of their partitions: who has which records, and what becomes of them."""
