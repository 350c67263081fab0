"""Principals: whom a connection acts for, written `User:alice` as Kafka's tools and ACLs write it."""

from dataclasses import dataclass

USER = "User"


@dataclass(frozen=True, slots=True)
class Principal:
    """A type and a name. Both are compared exactly, as KafkaPrincipal compares them."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> "Principal":
        """The principal of `type:name`; the name may hold further colons. ValueError for any other text."""
        kind, colon, name = text.partition(":")
        if not (kind and colon and name):
            raise ValueError(f"a principal is written type:name, such as User:alice; this is {text!r}")
        return cls(kind, name)


def user(name: str) -> Principal:
    """The principal of a user."""
    return Principal(USER, name)


ANONYMOUS = user("ANONYMOUS")
"""Who has not logged in, where the listener asks for no log-in."""
NODE = Principal("Node", "")
"""Another node of the bridge, which asks for itself. No client is one: those are users."""
