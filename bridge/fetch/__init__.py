"""What a Fetch does: it looks at partitions, waits until there is enough, and answers."""
