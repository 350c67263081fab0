"""A longer run against a bridge that is up: `python -m tests.fuzz --seconds 3600 --bridge 127.0.0.1:9092`."""

from __future__ import annotations

import argparse
import random
import secrets
import time

from tests.fuzz import mutations


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    parser.add_argument("--bridge", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="fuzz")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    until = time.monotonic() + options.seconds
    answered, closed = mutations.run(
        options.bridge, options.topic, random.Random(options.seed), lambda _: time.monotonic() < until
    )
    print(f"{answered} answered, {closed} closed")


if __name__ == "__main__":
    main()
