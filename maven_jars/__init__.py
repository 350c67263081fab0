"""Jars from Maven, for the bridge, the pipeline and the tests: it imports none of them."""

from maven_jars.cache import Jar, JarCache, cache_directory, wrong_jars
from maven_jars.maven import JarsError, MavenFetch, Say
from maven_jars.progress_line import ProgressLine, bar, duration

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
