"""How a metric is declared: once, in the body of a class, with its help text; its name is the attribute's.

`exposition` and docs/metrics.md take all else from there. An instance has a slot for what counts each metric: counting
looks nothing up.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, TypeVar, cast

from bridge.telemetry.instruments import Counter, Gauge, Histogram

Kind: TypeAlias = Literal["counter", "gauge", "histogram", "summary"]
Value: TypeAlias = float | Counter | Gauge | Histogram | tuple[int, float]
"""The last is a summary's: how many there were, and their sum."""
Samples: TypeAlias = Iterable[tuple[Sequence[str], Value]]
"""The labels' values, and the number, of each."""

_F = TypeVar("_F", bound="Families")


class Family(NamedTuple):
    """One metric and what it has now."""

    kind: Kind
    name: str
    """A counter's is without `_total`."""
    text: str
    labels: Sequence[str]
    samples: Samples


class Declared(NamedTuple):
    """A metric as a class's body has it."""

    make: Callable[[], Any] | None
    """Makes what an instance has in its place; None: `samples` are those of the instance itself."""
    samples: Callable[[Any], Samples]
    kind: Kind
    text: str
    labels: Sequence[str] = ()
    name: str = ""


class _Part(NamedTuple):
    """Metrics of another class, in their place among those of this one."""

    make: Callable[[], "Families"]


class _Declaring(type):
    """Makes a slot of each declaration in a class's body."""

    def __new__(mcs, name: str, bases: tuple[type, ...], body: dict[str, Any], prefix: str = "") -> "_Declaring":
        declared = {one: body.pop(one) for one in list(body) if isinstance(body[one], Declared | _Part)}
        if declared:
            body |= {
                "__slots__": [one for one in declared if declared[one].make],
                "_declared": declared,
                "_prefix": prefix,
            }
        return super().__new__(mcs, name, bases, body)


class Families(metaclass=_Declaring):
    """Metrics that are declared together, in the order in which a scrape shows them.

    `prefix` of a class goes before the names of its attributes.
    """

    _declared: ClassVar[dict[str, Declared | _Part]] = {}
    _prefix: ClassVar[str] = ""

    def __init__(self) -> None:
        for attribute, one in self._declared.items():
            if one.make is not None:
                setattr(self, attribute, one.make())

    def families(self) -> Iterator[Family]:
        """Each metric, as it is now; the samples are asked for one metric after the other."""
        for attribute, one in self._declared.items():
            of = self if one.make is None else getattr(self, attribute)
            if isinstance(one, _Part):
                yield from of.families()
            else:
                yield Family(one.kind, one.name or self._prefix + attribute, one.text, one.labels, one.samples(of))


def counter(text: str, name: str = "") -> Counter:
    """A counter without labels. `name`: where the attribute's is not to be the metric's."""
    return cast(Counter, Declared(Counter, _alone, "counter", text, name=name))


def gauge(text: str, name: str = "") -> Gauge:
    """A gauge without labels."""
    return cast(Gauge, Declared(Gauge, _alone, "gauge", text, name=name))


def histogram(text: str, name: str = "") -> Histogram:
    """A histogram without labels."""
    return cast(Histogram, Declared(Histogram, _alone, "histogram", text, name=name))


def counters(text: str, label: str, values: Iterable[str], name: str = "") -> dict[str, Counter]:
    """Counters by one label, which has these values and no others."""
    made = Declared(lambda: {value: Counter() for value in values}, by_label, "counter", text, (label,), name)
    return cast(dict[str, Counter], made)


def gauges(text: str, label: str, name: str = "") -> dict[str, float]:
    """Gauges by one label: a mapping to be filled, or replaced as a whole."""
    return cast(dict[str, float], Declared(dict, by_label, "gauge", text, (label,), name))


def part(make: Callable[[], _F]) -> _F:
    """The metrics of another class."""
    return cast(_F, _Part(make))


def shown(kind: Kind, text: str, labels: Sequence[str], samples: Callable[[Any], Samples], name: str = "") -> Declared:
    """A metric whose samples are made of the instance at each scrape, by another thread than the event loop's."""
    return Declared(None, samples, kind, text, labels, name)


def by_label(values: Mapping[str, Value]) -> Samples:
    """Samples by the value of one label. The mapping is copied: the event loop's thread may add to it meanwhile."""
    return [((label,), value) for label, value in dict(values).items()]


def _alone(value: Value) -> Samples:
    return [((), value)]
