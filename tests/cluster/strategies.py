"""Cluster records as Hypothesis makes them."""

from dataclasses import replace

from hypothesis import strategies as st

from bridge.cluster.membership.records import (
    Challenge,
    Heartbeat,
    Tick,
    TopicChange,
    TopicEvent,
    ViewDifference,
    WholeView,
)
from bridge.cluster.membership.view import ClusterView, Endpoint, NodeRegistration, NodeState, Sender
from bridge.pulsar.types import Position

INT32 = 2**31 - 1
INT64 = 2**63 - 1

ids = st.integers(0, INT32)
versions = st.integers(0, INT32)
texts = st.text(st.characters(codec="utf-8"), max_size=20)
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
times = st.floats(-1e9, 1e9)
senders = st.builds(Sender, names, st.integers(0, INT64))
positions = st.builds(Position, st.integers(-1, INT64), st.integers(-1, INT64))
slot_lists = st.sets(st.integers(0, 65_535), max_size=20).map(lambda slots: tuple(sorted(slots)))


def nodes(node_ids: st.SearchStrategy[int] = ids) -> st.SearchStrategy[NodeRegistration]:
    return st.builds(
        NodeRegistration,
        name=names,
        incarnation=st.integers(0, INT64),
        id=node_ids,
        endpoints=st.lists(st.builds(Endpoint, texts, texts, st.integers(0, 65_535)), max_size=3).map(tuple),
        rack=texts,
        weight=st.integers(0, 1_000_000),
        state=st.sampled_from(NodeState),
        level=st.integers(1, 9),
        software=texts,
        settings=texts,
        since=versions,
    )


members = st.dictionaries(ids, nodes(), max_size=5).map(
    lambda found: {id_: replace(node, id=id_) for id_, node in found.items()}
)


@st.composite
def views(draw: st.DrawFn, most_slots: int = 40) -> ClusterView:
    slots = draw(st.lists(st.tuples(st.integers(-1, INT32), versions), max_size=most_slots))
    said = draw(st.dictionaries(names, versions, max_size=3))
    return ClusterView(
        version=draw(st.integers(1, INT32)),
        controller=draw(st.integers(-1, INT32)),
        members=draw(members),
        ids=draw(st.dictionaries(names, ids, max_size=5)),
        owners=tuple(owner for owner, _ in slots),
        epochs=tuple(epoch for _, epoch in slots),
        groups=draw(st.lists(st.integers(-1, INT32), max_size=10).map(tuple)),
        level=draw(st.integers(1, 9)),
        away=said,
        drained=frozenset(said),
        removed={name: INT64 - number for name, number in said.items()},
    )


@st.composite
def whole_views(draw: st.DrawFn) -> WholeView:
    view = draw(views())
    return WholeView(draw(senders), draw(st.integers(0, view.version - 1)), view, draw(texts))


@st.composite
def differences(draw: st.DrawFn) -> ViewDifference:
    version = draw(st.integers(1, INT32))
    return ViewDifference(
        sender=draw(senders),
        base=draw(st.integers(0, version - 1)),
        version=version,
        controller=draw(st.integers(-1, INT32)),
        level=draw(st.integers(1, 9)),
        members=tuple(draw(members).values()),
        removed=draw(st.lists(ids, max_size=4).map(tuple)),
        ids=draw(st.dictionaries(names, ids, max_size=4)),
        slots=draw(st.dictionaries(ids, slot_lists, max_size=4)),
        groups=draw(st.dictionaries(ids, slot_lists, max_size=4)),
        reason=draw(texts),
    )


records = st.one_of(
    st.builds(Heartbeat, nodes(st.integers(-1, INT32)), times),
    whole_views(),
    differences(),
    st.builds(Tick, senders, versions, positions, positions),
    st.builds(Challenge, senders, times),
    st.builds(TopicChange, names, texts, st.sampled_from(TopicEvent)),
)
