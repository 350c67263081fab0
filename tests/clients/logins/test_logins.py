"""Every client logs in by every mechanism over TLS, and says so at once where it is not let in."""

from __future__ import annotations

from tests.clients.logins.attempts import Attempts, expected
from tests.clients.logins.table import CELL
from tests.clients.logins.ways import SECONDS, UNKNOWN_USER, WRONG_PASSWORD


def test_who_is_right_produces_and_fetches_and_who_is_not_is_told(
    attempts: Attempts, client: str, mechanism: str, case: str, record_property: CELL
) -> None:
    told = attempts.told(client, mechanism, case)
    by_bridge = attempts.is_bridge
    record_property("login", (client, mechanism, case, by_bridge, told.error, told.seconds))
    assert told.error in expected(client, mechanism, case, by_bridge=by_bridge), told.text
    if by_bridge:  # see `expected`
        assert told.seconds < SECONDS, "it ran into its own time limit"


def test_an_unknown_user_reads_as_a_wrong_password(attempts: Attempts, client: str, mechanism: str) -> None:
    wrong, unknown = (attempts.told(client, mechanism, case) for case in (WRONG_PASSWORD, UNKNOWN_USER))
    if attempts.is_bridge or wrong.error == unknown.error:  # see `expected`
        assert wrong.lasting == unknown.lasting
    if attempts.is_bridge:
        assert "Authentication failed" in wrong.text
