"""A Pulsar that demands a login and grants rights, and the tokens that it takes."""

import base64
import hmac
import json
import secrets


class Login:
    """A secret that broker and tokens share."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    @property
    def broker_settings(self) -> dict[str, str]:
        """What the broker's configuration needs. Without a token one is the administrator: the test itself is, and so
        is the broker towards itself."""
        return {
            "authenticationEnabled": "true",
            "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
            "tokenSecretKey": f"data:;base64,{base64.b64encode(self._secret).decode()}",
            "authorizationEnabled": "true",
            "anonymousUserRole": "admin",
            "superUserRoles": "admin",
        }

    def token(self, role: str) -> str:
        """A JSON web token (RFC 7519, HS256) that says who one is."""
        signed = f"{_part(json.dumps({'alg': 'HS256'}).encode())}.{_part(json.dumps({'sub': role}).encode())}"
        return f"{signed}.{_part(hmac.digest(self._secret, signed.encode(), 'sha256'))}"


def _part(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
