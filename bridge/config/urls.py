"""URLs as they may be told: without what may be a secret in them."""

import re
from typing import Final

_WORD: Final = re.compile(r"\S+")


def without_secrets(text: str) -> str:
    """The text without who is to log in by its URLs, and without what stands behind a `?` there."""
    return _WORD.sub(lambda word: url_without_secrets(word[0]), text) if "://" in text else text


def url_without_secrets(url: str) -> str:
    """The same of one URL, which may have spaces where it should not; a topic's full name stays as it is."""
    scheme, mark, rest = url.partition("://")
    if not mark or scheme.endswith("persistent"):
        return url
    _, at, place = rest.rpartition("@")
    shown = place.partition("?")[0].partition("#")[0]
    return f"{scheme}{mark}{'(not shown)@' if at else ''}{shown}{'' if shown == place else '?(not shown)'}"
