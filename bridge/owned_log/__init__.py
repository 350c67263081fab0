"""State kept in a compacted Pulsar topic; each of its partitions is owned by one process."""
