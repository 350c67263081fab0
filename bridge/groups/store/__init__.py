"""What is stored of groups and their committed offsets, in an owned log."""
