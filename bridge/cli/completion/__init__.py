"""What shells need to complete the words of the `bridge` command: made by `python -m tests.support.completions`."""
