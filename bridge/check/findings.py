"""One line of what `bridge check` tells."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How a finding stands; only UNFIT makes the whole unfit."""

    FIT = "fit"
    RISK = "risk"
    UNKNOWN = "unknown"
    UNFIT = "NOT FIT"


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding is one thing that was looked at, and what repairs it."""

    name: str
    severity: Severity
    detail: str
    remedy: str = ""
