"""The settings of who may log in."""

import re
from dataclasses import dataclass

from bridge.config.rules import check_rules, readable_file, seconds, text
from bridge.errors import SettingsError


def _is_https(url: str) -> bool:
    return not url or bool(re.fullmatch(r"https://[^\s/?#]+[^\s]*", url))


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """Who may log in."""

    password_file: str = readable_file()
    oauthbearer_jwks_file: str = readable_file()
    oauthbearer_jwks_endpoint_url: str = text("", "a URL that begins with https://", _is_https)
    oauthbearer_jwks_ca_file: str = readable_file()
    oauthbearer_expected_issuer: str = ""
    oauthbearer_expected_audience: str = ""
    oauthbearer_sub_claim_name: str = "sub"
    oauthbearer_scope_claim_name: str = "scope"
    oauthbearer_required_scope: str = ""
    oauthbearer_clock_skew_seconds: float = seconds(30)

    def __post_init__(self) -> None:
        check_rules("security", self)
        if self.oauthbearer_jwks_file and self.oauthbearer_jwks_endpoint_url:
            text = "set security.oauthbearer_jwks_file or security.oauthbearer_jwks_endpoint_url, not both"
            raise SettingsError(text)

    @property
    def has_tokens(self) -> bool:
        """Whether it is known whose tokens let clients in."""
        return bool(self.oauthbearer_jwks_file or self.oauthbearer_jwks_endpoint_url)
