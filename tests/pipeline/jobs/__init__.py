"""Each job, run as a user runs it."""
