"""The `bridge` command."""
