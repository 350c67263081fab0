"""Jars from Maven, for the bridge, the pipeline and the tests: it imports none of them."""

from bridge.standalone.maven.cache import Jar, JarCache, cache_directory, wrong_jars
from bridge.standalone.maven.maven import JarsError, MavenFetch, Say

__all__ = [
    "Jar",
    "JarCache",
    "JarsError",
    "MavenFetch",
    "Say",
    "cache_directory",
    "wrong_jars",
]
