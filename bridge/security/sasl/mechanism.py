"""What a SASL mechanism is: a factory of exchanges, each a small state machine of one log-in.

A listener has its mechanisms by name. SaslHandshake chooses one and calls `begin`. Each SaslAuthenticate is one `step`:

    SaslHandshake ──▶ begin() ──▶ Exchange
    SaslAuthenticate ──▶ step(auth_bytes, now) ──▶ Challenge   answer with its data; the client sends another one
                                               ──▶ Done        answer with its data; the connection is `principal`'s
                                               ──▶ Failed      answer SASL_AUTHENTICATION_FAILED and FAILURE_TEXT

A re-authentication (KIP-368) is another exchange. The caller compares its principal with the connection's.

`step` takes any bytes. What is wrong with them is a Failed, never an exception. After Done or Failed an exchange is
over: a further step is a Failed. Steps of one exchange do not run at the same time. `now` is Unix time in seconds.
"""

from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Final, Protocol

from bridge.security.principal import Principal

FAILURE_TEXT: Final = "Authentication failed"
"""All that a client is told, whatever the cause: nothing tells an unknown user from a wrong password."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """The log-in goes on: these bytes go to the client, which answers them."""

    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Done:
    """The client is who it says. `data` are the last bytes for it, empty where the mechanism has none."""

    principal: Principal
    expires_at: float | None = None
    """When the credential ends, in Unix seconds, always after `now`; None if it does not. See KIP-368."""
    data: bytes = field(default=b"", repr=False)
    token: str | None = field(default=None, repr=False)
    """The client's own token where it logged in with one, for Pulsar to judge. A secret: not for logs."""
    user_name: str | None = None
    """What the client calls itself where its token says who it is. Nothing proves it."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The step that ends a log-in: the client is not let in."""

    reason: str
    """For the audit log only, never a secret and never for the client."""
    name: str | None = None
    """Whom the client claimed to be, where that was readable: any text that a client may send."""
    retriable: bool = False
    """The credentials could not be asked for. The connection is closed without an answer, so that the client tries
    again: SASL_AUTHENTICATION_FAILED would be final for it."""


Step = Challenge | Done | Failed


class Exchange(Protocol):
    """One log-in of one client by a mechanism."""

    def step(self, data: bytes, now: float) -> Awaitable[Step]:
        """What the client's next bytes lead to."""


class Mechanism(Protocol):
    """A way to log in, the same object for all connections of a listener."""

    @property
    def name(self) -> str:
        """Its name in SaslHandshake, such as `SCRAM-SHA-512`."""

    def begin(self) -> Exchange:
        """A new log-in."""
