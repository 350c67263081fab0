"""The issuers whose tokens let clients in: what the setting `security.oauthbearer_issuers` may say.

    https://one.example    jwks=https://one.example/keys   audience=bridge
    https://other.example  jwks=/etc/bridge/other.json     audience=bridge,kafka  prefix=other-

One issuer a line: what its tokens have as `iss`, where its keys are, for whom its tokens have to be. `prefix` goes
before the names of its clients, so that it names no client of another issuer. `ca` is a file of authorities for `jwks`.
"""

import os
from dataclasses import dataclass

from bridge.config.rules import entries
from bridge.errors import SettingsError

_KEYS = ("jwks", "audience", "prefix", "ca")


@dataclass(frozen=True, slots=True)
class IssuerPlan:
    """One token issuer's settings; what is empty is not checked."""

    issuer: str
    jwks: str
    """An https: URL, or a file."""
    audiences: frozenset[str]
    ca_file: str = ""
    prefix: str = ""

    @property
    def has_url(self) -> bool:
        """Whether its keys are fetched."""
        return self.jwks.startswith("https://")


def parse_issuers(text: str) -> tuple[IssuerPlan, ...]:
    """The issuers; ValueError says what is wrong."""
    lines = (line.strip() for line in text.splitlines())
    plans = tuple(_plan(line) for line in lines if line and not line.startswith("#"))
    names = [plan.issuer for plan in plans]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name} is there twice")
    return plans


def _plan(line: str) -> IssuerPlan:
    issuer, *words = line.split()
    said = [word.partition("=") for word in words]
    values = {key: value for key, _, value in said}
    if "=" in issuer or len(values) != len(words) or not values.keys() <= set(_KEYS) or not all(values.values()):
        # without the line: a URL may have a secret in it
        raise ValueError(
            f"the line of {issuer.partition('=')[0]!r} is not `ISSUER jwks=... audience=...`, perhaps with prefix, ca"
        )
    for needed in ("jwks", "audience"):
        if needed not in values:
            raise ValueError(f"{issuer} has no {needed}=...")
    made = IssuerPlan(
        issuer, values["jwks"], frozenset(entries(values["audience"])), values.get("ca", ""), values.get("prefix", "")
    )
    for key, file in (("ca", made.ca_file), ("jwks", "" if made.has_url else made.jwks)):
        if file and not (os.path.isfile(file) and os.access(file, os.R_OK)):
            raise ValueError(f"{issuer}: its {key} is neither an https: URL nor a file that this process can read")
    return made


def check_issuers(text: str) -> None:
    """Raise SettingsError where the setting is wrong."""
    try:
        parse_issuers(text)
    except ValueError as error:
        raise SettingsError(f"security.oauthbearer_issuers: {error}") from None
