"""What shells need to complete the words of `bridge-pipeline`: made by `python -m tests.support.completions`."""
