"""Real Kafka and Pulsar clients against a running endpoint."""

import warnings

with warnings.catch_warnings():
    # kafka-python reads its schemas with importlib.resources functions deprecated in Python 3.11 and 3.12 only
    warnings.filterwarnings("ignore", r"(open|read)_text is deprecated", DeprecationWarning)
    import kafka  # noqa: F401
