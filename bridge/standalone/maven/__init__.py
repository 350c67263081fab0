"""Jars from Maven, for the bridge, the pipeline and the tests: it imports none of them."""

from bridge.standalone.maven.cache import Jar, JarCache, cache_directory, wrong_jars
from bridge.standalone.maven.maven import JarsError, MavenFetch, Say
from bridge.standalone.maven.progress_line import ProgressLine, bar, duration

__all__ = [
    "Jar",
    "JarCache",
    "JarsError",
    "MavenFetch",
    "ProgressLine",
    "Say",
    "bar",
    "cache_directory",
    "duration",
    "wrong_jars",
]
