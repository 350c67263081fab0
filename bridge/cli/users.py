"""`bridge user`: shows, adds and removes the users that are kept in Pulsar; by their topic, asking no node."""

import json
import secrets
from collections.abc import Sequence
from typing import Final, TextIO

from bridge.cli.connected import opened_security
from bridge.config import Settings
from bridge.errors import StartupError
from bridge.security.names import MAX_PASSWORD_BYTES, prepared_name
from bridge.security.records import Kept, user_key, user_record
from bridge.security.sasl.credentials import SCRAM_HASHES, credential_of, salt_text, salted_password

ITERATIONS: Final = 4096
_UNSURE: Final = "it may be changed all the same: see `bridge user list`"


async def show(settings: Settings, out: TextIO, *, as_json: bool = False) -> int:
    """Print the users, and the mechanisms and iterations of each."""
    async with opened_security(settings, _UNSURE) as (_, _, store):
        users = {
            name: {one.mechanism: one.iterations for one in credentials} for name, credentials in store.users().items()
        }
    if as_json:
        rows = [{"name": name, "mechanisms": mechanisms} for name, mechanisms in users.items()]
        print(json.dumps({"users": rows}, indent=1), file=out)
        return 0
    for name, mechanisms in users.items():
        print(name, *(f"{mechanism}={iterations}" for mechanism, iterations in mechanisms.items()), sep="  ", file=out)
    return 0


async def add(
    settings: Settings, name: str, password: str, mechanisms: Sequence[str], iterations: int
) -> Sequence[str]:
    """Add a user, or give it another password; by which mechanisms. StartupError says what is wrong with it."""
    kept_name = _name(name)
    if not password or len(password.encode(errors="surrogatepass")) > MAX_PASSWORD_BYTES:
        raise StartupError(f"a password has 1 to {MAX_PASSWORD_BYTES} bytes")
    records, mechanisms = [], mechanisms or list(SCRAM_HASHES)
    for mechanism in mechanisms:
        salt = salt_text(secrets.randbits(130))
        # as typed: Kafka's tools and most clients do not prepare passwords
        salted = salted_password(mechanism, password.encode(errors="surrogatepass"), salt, iterations)
        records.append(user_record(kept_name, credential_of(mechanism, salted, salt, iterations)))
    async with opened_security(settings, _UNSURE) as (_, _, store):
        await store.change(records)
    return mechanisms


async def remove(settings: Settings, name: str, mechanisms: Sequence[str]) -> Sequence[str]:
    """Remove a user, or what it has of some mechanisms; which those are."""
    kept_name = _name(name)
    async with opened_security(settings, _UNSURE) as (_, _, store):
        has = [one.mechanism for one in store.users().get(kept_name, ())]
        gone = [mechanism for mechanism in mechanisms or has if mechanism in has]
        if not gone:
            raise StartupError(f"there is no user {name!r}" + (" with this mechanism" if has else ""))
        await store.change([Kept(user_key(mechanism, kept_name)) for mechanism in gone])
    return gone


def _name(name: str) -> str:
    kept = prepared_name(name)
    if kept is None:
        raise StartupError("the name of a user is not empty, not too long, and has no prohibited characters")
    return kept
