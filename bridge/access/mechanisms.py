"""The mechanisms by which the clients of each listener log in, and the users behind them.

Imported where a listener has log-in: what it imports takes some 50 ms.
"""

import asyncio
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bridge.access.password_file import PasswordFile
from bridge.access.password_thread import PasswordThread
from bridge.access.security_store.store import SecurityStore
from bridge.config import SecuritySettings
from bridge.runtime.futures import retrieve_exception
from bridge.security.sasl.credentials import SCRAM_HASHES, Passwords, ScramCredentials
from bridge.security.sasl.mechanism import Mechanism
from bridge.security.sasl.passwords import StoredPasswords
from bridge.security.sasl.plain import Plain
from bridge.security.sasl.scram import Scram

if TYPE_CHECKING:
    from bridge.access.token_issuer import TokenIssuer

_REFRESH_SECONDS: Final = 1.0

TokensToo = Callable[[Passwords], Passwords]
"""Passwords that are tokens besides those that are not."""


class Mechanisms:
    """The log-in mechanisms of one process, by listener."""

    def __init__(
        self, settings: SecuritySettings, kept: SecurityStore | None = None, tokens: TokensToo | None = None
    ) -> None:
        """`kept`: the users that all nodes share, where there is no file of them. `tokens`: what takes tokens of
        Pulsar's for passwords as well. StartupError where the file is unfit."""
        self._file: PasswordFile | None = None
        users: ScramCredentials
        if kept is not None:
            users, decoys = kept, kept.decoys
        else:
            users = self._file = PasswordFile(Path(settings.password_file))
            decoys = self._file.decoys()
        passwords: Passwords = StoredPasswords(users, decoys, PasswordThread().run, secrets.token_bytes(32))
        if tokens is not None:
            passwords = tokens(passwords)
        self._known: dict[str, Mechanism] = {"PLAIN": Plain(passwords)}
        self._known |= {name: Scram(name, users, decoys, secrets.token_hex) for name in SCRAM_HASHES}
        self._issuer = _issuer(settings)
        if self._issuer is not None:
            self._known["OAUTHBEARER"] = self._issuer.mechanism
        self._refreshing: asyncio.Task[None] | None = None

    def named(self, names: Iterable[str]) -> dict[str, Mechanism]:
        """These, in this order."""
        return {name: self._known[name] for name in names}

    def start(self) -> None:
        """Follow the files from now on."""
        if self._issuer is not None:
            self._issuer.start()
        self._refreshing = asyncio.get_running_loop().create_task(self._refresh(), name="users' files")
        self._refreshing.add_done_callback(retrieve_exception)

    def stop(self) -> None:
        """Follow them no more."""
        if self._refreshing is not None:
            self._refreshing.cancel()
        if self._issuer is not None:
            self._issuer.stop()

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(_REFRESH_SECONDS)
            await asyncio.to_thread(self._refresh_now)

    def _refresh_now(self) -> None:
        if self._file is not None:
            self._file.refresh()
        if self._issuer is not None:
            self._issuer.refresh()


def _issuer(settings: SecuritySettings) -> "TokenIssuer | None":
    if not settings.has_tokens:
        return None
    from bridge.access.token_issuer import TokenIssuer  # what it imports takes as long as all else here

    return TokenIssuer(settings)
