"""The issuer whose tokens let clients in (OAUTHBEARER): its keys, and what its tokens must say, by the settings."""

import ssl
from pathlib import Path
from typing import Final

from bridge import log
from bridge.config import SecuritySettings
from bridge.config.listeners import entries
from bridge.errors import StartupError
from bridge.security.key_fetch import HttpsFetch
from bridge.security.key_sets import FileKeySet, UrlKeySet
from bridge.security.oauthbearer import OAuthBearer
from bridge.security.tokens import TokenRules, TokenVerifier

_log = log.get(__name__)

_UNCHECKED: Final = "! tokens for other services let clients in: name the issuer and the audience that tokens must have"


class TokenIssuer:
    """One for the process."""

    def __init__(self, settings: SecuritySettings) -> None:
        """StartupError where a file is not to be read, or is unfit."""
        rules = TokenRules(
            expected_issuer=settings.oauthbearer_expected_issuer or None,
            expected_audience=frozenset(entries(settings.oauthbearer_expected_audience)),
            clock_skew_seconds=settings.oauthbearer_clock_skew_seconds,
            sub_claim_name=settings.oauthbearer_sub_claim_name,
            scope_claim_name=settings.oauthbearer_scope_claim_name,
            required_scope=frozenset(settings.oauthbearer_required_scope.split()),
        )
        self._file = FileKeySet(Path(settings.oauthbearer_jwks_file)) if settings.oauthbearer_jwks_file else None
        self._url: UrlKeySet | None = None
        if self._file is None:
            tls = _tls(settings.oauthbearer_jwks_ca_file)
            self._url = UrlKeySet(HttpsFetch(settings.oauthbearer_jwks_endpoint_url, tls))
        keys = self._file or self._url
        assert keys is not None  # noqa: S101 - one of them is set
        self._is_checked = bool(rules.expected_issuer and rules.expected_audience)
        self.mechanism = OAuthBearer(TokenVerifier(keys, rules))

    def start(self) -> None:
        """Say what is not checked."""
        if not self._is_checked:
            names = "security.oauthbearer_expected_issuer, security.oauthbearer_expected_audience"
            _log.warning(_UNCHECKED, extra={"settings": names})

    def refresh(self) -> None:
        """Read the file again if it has changed; not on the event loop."""
        if self._file is not None:
            self._file.refresh()

    def stop(self) -> None:
        """Fetch no more."""
        if self._url is not None:
            self._url.stop()


def _tls(ca_file: str) -> ssl.SSLContext | None:
    try:
        return ssl.create_default_context(cafile=ca_file) if ca_file else None
    except (OSError, ssl.SSLError) as error:
        raise StartupError(f"security.oauthbearer_jwks_ca_file: {error}") from None
