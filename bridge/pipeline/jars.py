"""The Kafka connector's jars: what PySpark's own jars lack, each known by its sha256."""

import sys
from pathlib import Path

from bridge.pipeline.errors import PipelineError, Usage
from bridge.standalone.maven import Jar, JarCache, JarsError, MavenFetch, cache_directory, wrong_jars

# The token provider was published for 4.0.0 only; its classes fit every 4.0. To change a version: empty the cache, and
# put here what `sha256sum` says of what Maven fetched.
LOCKED = (
    Jar(
        "b2f7b3a4fbf292b5bf10bd4dd6af301eded9c9985b16239b407401d66dbc8a25",
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.4",
    ),
    Jar(
        "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    ),
    Jar("7568b998572d256f0b7bc0afdc1b7a2588b8b08415c62ce314c864a6851ae9d9", "org.apache.kafka:kafka-clients:3.9.1"),
    Jar("6d3bd18df8410f3e31b031aca582cc109342358a62a2759ebd0c4cdf30d06f8b", "org.apache.commons:commons-pool2:2.12.0"),
)


def connector_jars(directory: Path | None = None) -> list[Path]:
    """The jars, fetched when the cache lacks them; from a directory of the user's own nothing is fetched."""
    if directory is not None:
        wrong = [jar.name for jar in wrong_jars(directory, LOCKED)]
        if wrong:
            raise Usage(f"{directory} does not hold the jars this version was tested with: {', '.join(wrong)}")
        return [directory / jar.name for jar in LOCKED]
    fetch = MavenFetch(_say, "the Kafka connector", "10 MB")
    try:
        return JarCache(cache_directory() / "spark-kafka-4.0.4", _say, LOCKED, fetch).ensure()
    except JarsError as error:
        raise PipelineError(f"{error}\nor name the jars' directory with --jars DIR") from None


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> int:
    """`python -m bridge.pipeline.jars`: fill the cache and nothing else, for tests and images."""
    try:
        connector_jars()
    except PipelineError as error:
        print(f"bridge-pipeline: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
