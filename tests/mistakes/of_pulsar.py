"""Mistakes in what the bridge is told of Pulsar, and in the Pulsar."""

from __future__ import annotations

from collections.abc import Callable

from tests.mistakes.mistake import Mistake, Place

_QUICK = "connect_timeout_seconds = 5\noperation_timeout_seconds = 5\n"


def _pulsar(text: Callable[[Place], str]) -> Callable[[Place], str]:
    """Start with this in [pulsar]."""
    return lambda place: place.start(f"[pulsar]\n{_QUICK}{text(place)}\n")


def _where(url: str) -> str:
    return url.partition("://")[2]


def _service(scheme: str, *, admin: bool = False) -> Callable[[Place], str]:
    """Start with the service URL of this scheme at the broker's port, or at that of its admin interface."""
    return _pulsar(
        lambda place: (
            f'service_url = "{scheme}://{_where(place.pulsar.admin_url if admin else place.pulsar.service_url)}"'
        )
    )


def _admin(scheme: str, *, binary: bool = False) -> Callable[[Place], str]:
    return _pulsar(
        lambda place: (
            f'admin_url = "{scheme}://{_where(place.pulsar.service_url if binary else place.pulsar.admin_url)}"'
        )
    )


def _no_retention(place: Place) -> str:
    place.pulsar.admin("DELETE", f"namespaces/{place.namespace}/retention")
    return place.start("[retention]\nensure = false\n")


def _not_retained(place: Place) -> str:
    """`bridge check` says it as well."""
    place.pulsar.admin("DELETE", f"namespaces/{place.namespace}/retention")
    place.settings("[retention]\nensure = false\n")
    lines = place.bridge("check", "--config", "bridge.toml").splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("  retention "))
    return "\n".join(lines[at : at + 2])


def _id_twice(place: Place) -> str:
    return _beside_another(place, "[kafka]\nnode_id = 7\n{}[cluster]\nname = {}\n")


def _beside_another(place: Place, text: str) -> str:
    """The first serves while the second is started."""
    said: list[str] = []
    first = text.format(f'listen = "127.0.0.1:{place.kafka}"\n', '"bridge-0"')

    def start_the_second(_: str) -> None:
        place.http = place.port(7092)
        said.append(place.start(text.format(f'listen = "127.0.0.1:{place.port(9092)}"\n', '"bridge-1"')))

    place.served(first, start_the_second)
    return said[0]


MISTAKES = [
    Mistake(
        "Pulsar is not there",
        lambda place: place.start('[pulsar]\nservice_url = "pulsar://127.0.0.1:1"\n'),
        "set pulsar.",
    ),
    Mistake(
        "Pulsar's name is misspelled",
        _pulsar(lambda _: 'service_url = "pulsar://pulsr.invalid:6650"'),
        "pulsar.service_url",
    ),
    Mistake("TLS to a broker's plain port", _service("pulsar+ssl"), "a plain port, 6650 as a rule, is for pulsar://"),
    Mistake(
        "the admin port as the service URL", _service("pulsar", admin=True), "this is the port of pulsar.admin_url"
    ),
    Mistake("HTTPS to a plain admin port", _admin("https"), "http:// may be meant"),
    Mistake(
        "the broker's port as the admin URL",
        _admin("http", binary=True),
        "set pulsar.admin_url to a broker's web address",
    ),
    Mistake(
        "the tenant is not there", _pulsar(lambda _: 'tenant = "orders"'), "run: pulsar-admin tenants create orders"
    ),
    Mistake("the namespace is not there", _pulsar(lambda _: 'namespace = "orders"'), "pulsar-admin namespaces create"),
    Mistake("nothing keeps the records", _no_retention, "run: pulsar-admin namespaces set-retention"),
    Mistake("nothing keeps them, asked before the start", _not_retained, "pulsar-admin namespaces set-retention"),
    Mistake("two nodes with one id", _id_twice, "each node needs its own"),
]
