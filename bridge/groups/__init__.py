"""Consumer groups: their coordinator, their committed offsets, and where both are kept."""
