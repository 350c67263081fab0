"""The settings of who may log in."""

import re
from dataclasses import dataclass

from bridge.config.rules import check_rules, entries, integer, readable_file, seconds, secret_file, text
from bridge.config.token_issuers import IssuerPlan, check_issuers, parse_issuers
from bridge.errors import SettingsError


def _is_https(url: str) -> bool:
    return not url or bool(re.fullmatch(r"https://[^\s/?#]+[^\s]*", url))


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """The settings of who may log in."""

    password_file: str = secret_file()
    oauthbearer_jwks_file: str = readable_file()
    oauthbearer_jwks_endpoint_url: str = text("", "a URL that begins with https://", _is_https)
    oauthbearer_jwks_ca_file: str = readable_file()
    oauthbearer_expected_issuer: str = ""
    oauthbearer_expected_audience: str = ""
    oauthbearer_issuers: str = ""
    oauthbearer_jwks_endpoint_refresh_ms: int = integer(3_600_000, 60_000, 86_400_000)
    oauthbearer_sub_claim_name: str = "sub"
    oauthbearer_scope_claim_name: str = "scope"
    oauthbearer_required_scope: str = ""
    oauthbearer_clock_skew_seconds: float = seconds(30)

    def __post_init__(self) -> None:
        check_rules("security", self)
        if self.oauthbearer_jwks_file and self.oauthbearer_jwks_endpoint_url:
            text = "set security.oauthbearer_jwks_file or security.oauthbearer_jwks_endpoint_url, not both"
            raise SettingsError(text)
        check_issuers(self.oauthbearer_issuers)
        of_one = ("jwks_file", "jwks_endpoint_url", "jwks_ca_file", "expected_issuer", "expected_audience")
        for name in of_one if self.oauthbearer_issuers else ():
            if getattr(self, f"oauthbearer_{name}"):
                raise SettingsError(
                    f"security.oauthbearer_issuers and security.oauthbearer_{name} are both set: say it in the line of "
                    "its issuer"
                )

    @property
    def has_tokens(self) -> bool:
        """Whether it is known whose tokens let clients in."""
        return bool(self.token_issuers)

    @property
    def token_issuers(self) -> tuple[IssuerPlan, ...]:
        """Those whose tokens let clients in."""
        if self.oauthbearer_issuers:
            return parse_issuers(self.oauthbearer_issuers)
        jwks = self.oauthbearer_jwks_file or self.oauthbearer_jwks_endpoint_url
        audiences = frozenset(entries(self.oauthbearer_expected_audience))
        one = IssuerPlan(self.oauthbearer_expected_issuer, jwks, audiences, self.oauthbearer_jwks_ca_file)
        return (one,) if jwks else ()
