"""The issuers whose tokens let clients in (OAUTHBEARER): their keys, and what tokens must say, by the settings."""

import ssl
from pathlib import Path
from typing import Final

from bridge.access.key_sets import FileKeySet, HttpsFetch, UrlKeySet
from bridge.config import SecuritySettings
from bridge.config.token_issuers import IssuerPlan
from bridge.errors import StartupError
from bridge.security.sasl.oauthbearer import OAuthBearer
from bridge.security.tokens import IssuedTokens, TokenRules, Tokens, TokenVerifier
from bridge.telemetry import log

_log = log.get(__name__)

_UNCHECKED: Final = "! tokens for other services let clients in: name the issuer and the audience that tokens must have"


class TokenIssuer:
    """The issuers whose tokens a process takes; there is one such object for all of them."""

    def __init__(self, settings: SecuritySettings) -> None:
        """StartupError where a file is not to be read, or is unfit."""
        self._files: list[FileKeySet] = []
        self._urls: list[UrlKeySet] = []
        plans = settings.token_issuers
        self._is_checked = all(plan.issuer and plan.audiences for plan in plans)
        verifiers = {plan.issuer: self._verifier(plan, settings) for plan in plans}
        tokens: Tokens = IssuedTokens(verifiers) if settings.oauthbearer_issuers else verifiers[plans[0].issuer]
        self.mechanism = OAuthBearer(tokens)

    def start(self) -> None:
        """Say what is not checked."""
        if not self._is_checked:
            names = "security.oauthbearer_expected_issuer, security.oauthbearer_expected_audience"
            _log.warning(_UNCHECKED, extra={"settings": names})

    def refresh(self) -> None:
        """Read the files again that have changed; not on the event loop."""
        for file in self._files:
            file.refresh()

    def stop(self) -> None:
        """Fetch no more."""
        for url in self._urls:
            url.stop()

    def _verifier(self, plan: IssuerPlan, settings: SecuritySettings) -> TokenVerifier:
        rules = TokenRules(
            expected_issuer=plan.issuer or None,
            expected_audience=plan.audiences,
            clock_skew_seconds=settings.oauthbearer_clock_skew_seconds,
            sub_claim_name=settings.oauthbearer_sub_claim_name,
            scope_claim_name=settings.oauthbearer_scope_claim_name,
            required_scope=frozenset(settings.oauthbearer_required_scope.split()),
            name_prefix=plan.prefix,
        )
        if not plan.has_url:
            file = FileKeySet(Path(plan.jwks))
            self._files.append(file)
            return TokenVerifier(file, rules)
        fetch = HttpsFetch(plan.jwks, _tls(plan.ca_file))
        url = UrlKeySet(fetch, settings.oauthbearer_jwks_endpoint_refresh_ms / 1000)
        self._urls.append(url)
        return TokenVerifier(url, rules)


def _tls(ca_file: str) -> ssl.SSLContext | None:
    try:
        return ssl.create_default_context(cafile=ca_file) if ca_file else None
    except (OSError, ssl.SSLError) as error:
        raise StartupError(f"the authorities of a token issuer, {ca_file}: {error}") from None
