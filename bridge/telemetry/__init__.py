"""What a node tells of itself: the log, and counts for metrics."""
