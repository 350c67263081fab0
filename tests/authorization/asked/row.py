"""One request of the matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bridge.requests.api import Api
from tests.authorization.answers import line
from tests.authorization.login import LoggedIn
from tests.authorization.rights import EVERYTHING, NOTHING, SUPER, Right
from tests.authorization.world import World
from tests.support.versions import newest

FEW = {NOTHING.name, SUPER, "deny-TOPIC-CREATE", "deny-TOPIC-DELETE", "deny-CLUSTER-CREATE", EVERYTHING.name}


@dataclass(frozen=True, slots=True)
class Row:
    """A request that is sent in the name of each principal."""

    api: Api
    what: str
    request: Callable[[World], Any]
    version: int | None = None
    since: int | None = None
    """The oldest version in which the same may be asked: few principals ask in those before `version`."""
    answers: bool = True
    slow: bool = False
    """It makes or deletes topics: few principals ask."""
    older: bool = False
    deletes: Sequence[str] = ()
    """What is no longer there when the answer says so."""

    @property
    def name(self) -> str:
        """Its name in the data, and in a test run."""
        return f"{self.api.name} v{self._version}: {self.what}"

    def asked_by(self, rights: Sequence[Right]) -> list[str]:
        """Who of these asks."""
        names = [right.name for right in rights]
        if self.older:
            return [name for name in names if name in FEW or name.startswith("all-but-")]
        return [name for name in names if not self.slow or name in FEW or name.startswith("only-")]

    def in_all_versions(self) -> Iterator[Row]:
        """The same request in its older versions as well."""
        yield self
        if self.since is not None:
            for version in range(self.since, self._version):
                yield replace(self, version=version, older=True)

    def told(self, client: LoggedIn, world: World) -> str:
        """What the client is told, as one line."""
        world.fresh.clear()
        said = line(
            client.told(self.api, self.request(world), self._version, answers=self.answers), self._version, world
        )
        for name in self.deletes:
            if name in said.split():
                world.deleted(name)
        return said

    @property
    def _version(self) -> int:
        return newest(self.api) if self.version is None else self.version
