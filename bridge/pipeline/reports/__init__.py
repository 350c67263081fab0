"""What the `traffic` job has measured, for readers."""
