"""Options of `bridge import kafka` and `bridge import kop` that both have: what is taken, and of which topics."""

import re
from collections.abc import Sequence

from bridge.errors import SettingsError


def kinds(what: str | None, known: Sequence[str]) -> list[str]:
    """What `--what` names, in the order in which it is known, or all; SettingsError."""
    named = list(known) if what is None else what.split(",")
    wrong = next((name for name in named if name not in known), None)
    if wrong is not None:
        raise SettingsError(f"--what {wrong}: not one of {', '.join(known)}")
    return [kind for kind in known if kind in named]


def topics_pattern(topics: str | None) -> "re.Pattern[str] | None":
    """What the topics' names have to fit to, whole; None: all do. SettingsError."""
    try:
        return re.compile(topics) if topics else None
    except re.error as error:
        raise SettingsError(f"--topics {topics}: no regular expression: {error}") from None
