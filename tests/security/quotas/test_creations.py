"""Topics that clients only ask for: as many a minute as each may have, and all together."""

from bridge.security.quotas.creations import TopicCreations


def created(creations: TopicCreations, client: str, now: float, tries: int) -> int:
    return sum(not creations.create(client, now) for _ in range(tries))


def test_without_limits_any_number_is_created() -> None:
    assert created(TopicCreations(), "User:alice", 0.0, 1000) == 1000


def test_each_client_has_its_own_number_a_minute() -> None:
    creations = TopicCreations(60, -1)
    assert created(creations, "User:alice", 0.0, 100) == 60
    assert creations.create("User:alice", 0.0) == 1.0
    assert created(creations, "/10.0.0.1", 0.0, 100) == 60
    assert created(creations, "User:alice", 10.0, 100) == 10


def test_all_together_have_theirs_and_what_is_refused_costs_nothing() -> None:
    creations = TopicCreations(60, 90)
    assert created(creations, "a", 0.0, 60) == 60
    assert created(creations, "b", 0.0, 60) == 30
    assert created(creations, "b", 60.0, 60) == 60


def test_of_those_refused_one_in_a_while_is_told() -> None:
    creations = TopicCreations(1, -1)
    assert [creations.refused(now, 1.0) for now in (0.0, 0.1, 0.9, 1.0, 1.1)] == [1, 0, 0, 3, 0]
