"""Whether two sides hold the same records, and which they are if not."""
