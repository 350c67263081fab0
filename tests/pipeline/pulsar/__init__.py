"""The reader that goes past the bridge."""
