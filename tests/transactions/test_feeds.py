"""Nodes that hold and follow the slots of transactions, under many schedules of a model broker."""

from bridge.runtime.futures import loop_time
from bridge.storage.visibility import Identity, Outcome, Transaction
from bridge.telemetry.metrics import TransactionMetrics
from bridge.transactions.slot_table import SlotCopy
from tests.owned_log.model import play_on_model
from tests.owned_log.nodes import LogSite
from tests.schedules.world import World
from tests.support.waiting import until
from tests.transactions.feeding import ALL, P0, TOPIC_ID, begin, confirmed, end, node, watched


def test_where_there_are_none_all_is_known_at_once() -> None:
    async def play(site: LogSite, world: World) -> None:
        one = await node(site, world.settings())
        await one.outcomes.confirm()
        assert not await one.all()
        assert await one.describe("x") is None
        forged = Transaction(3, Identity(1, 0, 1))
        assert one.outcomes.outcome(forged) is Outcome.OPEN
        await watched(one, forged).wait()
        assert one.outcomes.outcome(forged) is Outcome.COMMITTED
        await one.close()

    play_on_model(play)


def test_a_reader_that_knows_of_none_shows_nothing_of_the_first_that_another_node_begins() -> None:
    async def play(site: LogSite, world: World) -> None:
        reader, holder = await node(site, world.settings()), await node(site, world.settings(), ALL)
        await reader.outcomes.confirm()
        first = await begin(holder)
        assert reader.outcomes.outcome(first) is Outcome.OPEN
        decided = watched(reader, first)  # an entry of it is met
        await confirmed(reader)
        assert [one.transaction for one in reader.outcomes.open_in(TOPIC_ID, 0)] == [first]
        assert not decided.is_set()
        await end(holder, first)
        await decided.wait()
        assert reader.outcomes.outcome(first) is Outcome.ABORTED
        await reader.close()
        await holder.close()

    play_on_model(play)


def test_a_slot_goes_from_one_to_the_other_and_both_know_all() -> None:
    async def play(site: LogSite, world: World) -> None:
        one, other = await node(site, world.settings(), ALL), await node(site, world.settings())
        first = await begin(one)
        one.assign((), ())
        other.assign(ALL, ())
        await until(lambda: other.is_holder("x"))
        assert one.outcomes.outcome(first) is Outcome.OPEN
        await end(other, first)
        await confirmed(one)
        assert one.outcomes.outcome(first) is other.outcomes.outcome(first) is Outcome.ABORTED
        second = Transaction(first.slot, first.identity._replace(n=2))
        await (await other.coordinator()).add_partitions("x", first.identity.producer_id, 0, [P0], {}, protocol=1)
        await confirmed(one)
        for at in (one, other):
            assert await at.stamp("x", first.identity.producer_id, 0, [(TOPIC_ID, 0)]) == second
        await one.close()
        await other.close()

    play_on_model(play)


def test_of_protocol_1_what_is_known_counts_as_old_as_its_last_confirm() -> None:
    async def play(site: LogSite, world: World) -> None:
        holder, other = await node(site, world.settings(), ALL), await node(site, world.settings())
        first = await begin(holder)
        await confirmed(other)
        producer_id, epoch, _ = first.identity
        for at in (holder, other):
            before = loop_time()
            await at.stamp("x", producer_id, epoch, [(TOPIC_ID, 0)])
            after = loop_time()
            assert at.known("x", producer_id, epoch, [(TOPIC_ID, 0)], before - 1) == first
            assert at.known("x", producer_id, epoch, [(TOPIC_ID, 1)], before - 1) is None
            assert at.known("x", producer_id, epoch + 1, [(TOPIC_ID, 0)], before - 1) is None
            assert at.known("x", producer_id, epoch, [(TOPIC_ID, 0)], after) is None
        await end(holder, first)
        await confirmed(other)
        assert holder.known("x", producer_id, epoch, [(TOPIC_ID, 0)], before - 1) is None
        assert other.known("x", producer_id, epoch, [(TOPIC_ID, 0)], before - 1) is None
        await holder.close()
        await other.close()

    play_on_model(play)


def test_produces_that_came_before_a_confirm_share_it() -> None:
    async def play(site: LogSite, world: World) -> None:
        metrics = TransactionMetrics()
        holder = await node(site, world.settings(), ALL, metrics)
        first = await begin(holder)
        producer_id, epoch, _ = first.identity
        asked, came = sum(metrics.confirm_seconds.counts), loop_time() - 1
        for _ in range(5):  # one behind the other, as a connection's requests are
            assert await holder.stamp("x", producer_id, epoch, [(TOPIC_ID, 0)], came) == first
        assert sum(metrics.confirm_seconds.counts) == asked + 1
        assert await holder.stamp("x", producer_id, epoch, [(TOPIC_ID, 0)], loop_time()) == first
        assert sum(metrics.confirm_seconds.counts) == asked + 2
        await holder.close()

    play_on_model(play)


def test_a_copy_that_a_follower_completes_too_late_takes_no_holders_place() -> None:
    async def play(site: LogSite, world: World) -> None:
        one, other = await node(site, world.settings(), ALL), await node(site, world.settings())
        first = await begin(one)
        await confirmed(other)
        late = other._feeds._followers[first.slot]
        one.assign((), ())
        other.assign(ALL, ())
        await until(lambda: other.is_holder("x"))
        late._swapped(SlotCopy())
        await end(other, first)
        assert other.outcomes.outcome(first) is Outcome.ABORTED
        await one.close()
        await other.close()

    play_on_model(play)


def test_a_node_that_starts_later_has_all_before_it_serves() -> None:
    async def play(site: LogSite, world: World) -> None:
        holder = await node(site, world.settings(), ALL)
        first = await begin(holder)
        await end(holder, first)
        later = await node(site, world.settings())
        assert later.outcomes.outcome(first) is Outcome.ABORTED
        await later.close()
        await holder.close()

    play_on_model(play)


def test_the_table_grows_no_older_while_all_is_well() -> None:
    async def play(site: LogSite, world: World) -> None:
        reader = await node(site, world.settings())
        feeds = reader._feeds
        assert feeds.age() is None
        holder = await node(site, world.settings(), ALL)
        assert feeds.age() is None
        await begin(holder)
        await confirmed(reader)
        await world.sleep(100)
        assert feeds.age() == 0
        await until(lambda: holder._feeds.age() == 0)  # it follows none
        await reader.close()
        await holder.close()

    play_on_model(play)
