"""Whether the explorer notices faults: breaks the bridge's code in one place at a time and looks which scenario fails.

    .venv/bin/python -m tests.schedules.mutations [part of a name]

Each mutation is made in a copy of `bridge/`, never here. A scenario that fails without any mutation proves
nothing: that is told as well. All of them take some minutes; those of `RULES_OF_NODES` are part of `make test`.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

_REPOSITORY = Path(__file__).parents[2]
_SEEDS = 300
_PROGRAM = """
import sys
from tests.schedules.explorer import Plan, explore
from tests.schedules.loop import Order
module, name, noticed, seeds = sys.argv[1:]
tried = dict.fromkeys((int(noticed), *range(int(seeds))))
ran, _, failed = explore(module, name, Plan(tuple(tried), Order.ASYNCIO, 0, 1))
if failed:
    print(f"seed {failed[0].seed}: {failed[0].error.splitlines()[0]}")
"""


@dataclass(frozen=True)
class Mutation:
    """One fault, and the scenario that has to notice it."""

    what: str
    file: str
    old: str
    new: str
    module: str
    scenario: str
    also: tuple[tuple[str, str, str], ...] = ()
    """More that is changed at the same time, each a file, what is there, and what comes in its place."""
    seeds: int = _SEEDS
    """So many are tried: what it takes comes together more or less often."""
    noticed: int = 0
    """The first that is tried: one that noticed it. The others are for when the code has changed."""

    @property
    def edits(self) -> tuple[tuple[str, str, str], ...]:
        """All that is changed."""
        return ((self.file, self.old, self.new), *self.also)


_OVERTAKEN = (
    "pulsar/producer/producer.py",
    "        if self._was_overtaken(success.last_sequence_id):\n", "        if False:\n",
)  # fmt: skip
_GAP = (
    "storage/append/writers.py",
    "            if writer.opened_at < came and writer.sequences.is_gap(epoch, sequence):\n", "            if False:\n",
)  # fmt: skip

_PROPERTIES = "storage/topic_properties.py"

_SHARES = "test_share_nodes", "test_what_was_accepted_is_not_given_again"

RULES_OF_NODES = (
    Mutation(
        "a leader of share partitions is not fenced by a later one", "groups/share/state_records.py",
        "    if leader_epoch < state.leader_epoch:\n", "    if False:\n", *_SHARES,
        (("groups/share/state_records.py", "    if leader_epoch != state.leader_epoch:\n", "    if False:\n"),),
        noticed=29,
    ),
    Mutation(
        "a leader of share partitions goes by what the coordinator has said at any time", "shares/partition.py",
        "        if loop_time() - self._confirmed_at < _CONFIRMED_SECONDS:\n", "        if True:\n",
        "test_share_nodes", "test_a_leader_that_was_paused_gives_nothing_that_was_accepted_elsewhere", noticed=23,
    ),
    Mutation(
        "a leader of share partitions goes by its state when a member begins to read", "shares/partition.py",
        "        self._doubts += 1\n        self._confirmed_at = -inf\n", "        pass\n",
        "test_share_nodes", "test_who_joins_after_offsets_were_altered_is_given_what_lies_from_there_on",
    ),
    Mutation(
        "a reader at the end begins wherever its cursor is", "pulsar/consumer/reader.py",
        "            Position.of(answer.consumer_mark_delete_position) > self.start\n", "            False\n",
        "test_readers_at_the_end", "test_a_tail_that_opens_while_others_write_misses_nothing", noticed=10,
    ),
    Mutation(
        "a producer goes on though its name was used elsewhere meanwhile", *_OVERTAKEN,
        "test_two_nodes", "test_a_producer_that_has_a_newer_epoch_at_another_node_is_fenced_here",
    ),
    Mutation(
        "neither that nor a gap makes a node ask Pulsar again what is stored", *_OVERTAKEN,
        "test_two_nodes", "test_an_idempotent_producer_goes_from_node_to_node", (_GAP,), 1200, noticed=261,
    ),
    Mutation(
        "the end is told from memory", "storage/partition.py",
        "            await self._tails.refresh_end()\n            return await self._stable.ask()",
        "            await self._tails.open()\n            return await self._stable.ask()",
        "test_two_nodes", "test_the_end_is_never_behind_what_another_node_acknowledged",
    ),
    Mutation(
        "a repeated batch is looked for only behind what was known when it came", "storage/append/duplicates.py",
        "                    base = await self._find_far(prepared)\n", "                    pass\n",
        "test_two_nodes", "test_a_batch_that_was_stored_long_ago_is_told_its_offset",
    ),
    Mutation(
        "a repeated batch that is found nowhere is an error", "storage/append/duplicates.py",
        "        raise KafkaError(ErrorCode.DUPLICATE_SEQUENCE_NUMBER, ",
        "        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, ",
        "test_two_nodes", "test_a_batch_that_was_stored_long_ago_is_told_its_offset",
    ),
    Mutation(
        "each request looks again for the batch that it repeats", "storage/append/repetitions.py",
        "        repetition = of_producer.get(batch)\n", "        repetition = None\n",
        "test_repetitions", "test_a_search_outlives_requests_that_time_out_and_clients_that_hang_up",
    ),
    Mutation(
        "a commit is acknowledged by its receipt", "owned_log/read_back.py",
        "        return receipt.position <= self.known\n", "        return True\n",
        "test_group_slot", "test_what_is_stored_behind_another_holder_s_marker_is_not_acknowledged",
    ),
    Mutation(
        "the node that writes last says where a log starts", _PROPERTIES,
        '    return {f"{_LOG_START}{partition}.{offset}": ""}', '    return {f"{_LOG_START}{partition}": str(offset)}',
        "test_topics_of_nodes", "test_nodes_that_raise_the_start_of_a_log_at_once_leave_the_higher_one",
        (
            (_PROPERTIES, "    for name in properties:\n", "    for name, value in properties.items():\n"),
            (
                _PROPERTIES,
                '_, offset = name[len(_LOG_START) :].partition(".")', "offset = name[len(_LOG_START) :], value",
            ),
        ),
    ),
)  # fmt: skip
"""What keeps several nodes right beside each other, whichever of them leads."""

MUTATIONS = (
    *RULES_OF_NODES,
    Mutation(
        "a change of users is answered by its receipt", "access/security_store/security_log.py",
        "        await self._read(positions[-1])\n", "",
        "test_security_log", "test_what_was_acknowledged_counts_on_all_nodes_whatever_befalls_pulsar",
    ),
    Mutation(
        "users are known before they are read to their end", "access/security_store/security_log.py",
        "self._end is None or self._next_read_to < self._end:", "self._next_read_to == EARLIEST:",
        "test_security_log", "test_what_was_acknowledged_counts_on_all_nodes_whatever_befalls_pulsar",
    ),
    Mutation(
        "a gap does not make a node ask Pulsar again what is stored", *_GAP,
        "test_two_nodes", "test_an_idempotent_producer_goes_from_node_to_node",
    ),
    Mutation(
        "the end grows and no waiter is woken", "storage/read/log_end.py",
        "        self.offset = max(self.offset, offset)\n        self.wake_waiters()\n",
        "        self.offset = max(self.offset, offset)\n",
        "test_waiting_fetch", "test_entries_of_native_writers_wake_a_waiting_fetch",
    ),
    Mutation(
        "a Fetch looks first and asks to be told some time later", "fetch/waiting.py",
        "        for end in self._ends:\n            end.add_waiter(self)\n",
        "        for end in self._ends:\n            self._loop.call_soon(end.add_waiter, self)\n",
        "test_waiting_fetch", "test_entries_of_native_writers_wake_a_waiting_fetch",
    ),
    Mutation(
        "an offset is counted over a change of ledger", "storage/offsets.py",
        "        if ledger != self._ledger or entry != self._entry + 1 or self._next < 0:\n",
        "        if (ledger == self._ledger and entry != self._entry + 1) or self._next < 0:\n",
        "test_faults", "test_plain_producers",
    ),
    Mutation(
        "a reader takes what it has had again after a reconnect", "pulsar/consumer/reader.py",
        "        if position <= self._last_received:\n            return False\n"
        "        self._last_received = position\n",
        "        self._last_received = max(self._last_received, position.before)\n",
        "test_faults", "test_plain_producers",
    ),
    Mutation(
        "permits of a former session count for the new one", "pulsar/consumer/subscription.py",
        "        self._flow.reset()\n        self._refill()\n", "        self._refill()\n",
        "test_faults", "test_plain_producers",
    ),
    Mutation(
        "pending sends are not sent again after a reconnect", "pulsar/producer/producer.py",
        "            if send.connection is connection or send.future.done():\n                continue\n",
        "            if send.sent_at:\n                continue\n",
        "test_faults", "test_producers_do_not_see_short_faults",
    ),
    Mutation(
        "pending sends are sent again in another order", "pulsar/producer/producer.py",
        "        for send in tuple(self._pending):\n            if send.connection",
        "        for send in reversed(tuple(self._pending)):\n            if send.connection",
        "test_faults", "test_idempotent_producers_with_long_timeouts",
    ),
    Mutation(
        "a later batch succeeds before an earlier one that failed", "storage/append/pending_append.py",
        "    if before is None:\n        answer.set_result(base)\n",
        "    if True:\n        answer.set_result(base)\n",
        "test_faults", "test_no_batch_succeeds_before_an_earlier_one_that_failed",
    ),
    Mutation(
        "a repetition is not told from what is next", "storage/append/sequences.py",
        "        if sequence == expected.sequence:\n", "        if True:\n",
        "test_faults", "test_idempotent_producers_with_long_timeouts",
    ),
    Mutation(
        "a producer brings a deleted topic back", "pulsar/producer/opening.py",
        "        if self._must_exist:\n            await self._existence",
        "        if False:\n            await self._existence",
        "test_topics_come_and_go", "test_a_topic_deleted_past_the_bridge_under_a_writer_stays_deleted",
    ),
    Mutation(
        "a deleted and recreated topic is not noticed", "storage/topics/topics.py",
        "        if found is None or topic.id not in (topic_id(found[1]), NO_ID):", "        if found is None:",
        "test_topics_come_and_go", "test_a_topic_deleted_and_recreated_past_the_bridge",
    ),
    Mutation(
        "a cancelled opening leaves the producer's name taken", "pulsar/producer/producer.py",
        "            connection.producers.pop(self._id, None)\n            connection.notify("
        "lambda request_id: commands.close_producer(request_id, self._id))\n            raise\n",
        "            connection.producers.pop(self._id, None)\n            raise\n",
        "test_closing", "test_a_producer_is_closed_while_it_opens",
    ),
    Mutation(
        "a cancelled watch goes on", "pulsar/topic_watch.py",
        "        except BaseException:\n            self._close_session(connection)\n            raise\n",
        "        except BaseException:\n            raise\n",
        "test_closing", "test_a_watch_is_closed_while_it_opens",
    ),
    Mutation(
        "one waiter's cancellation is that of all who wait for a connection", "pulsar/connection/pool.py",
        '        return await wait_shared(attempt, ClientClosed("the Pulsar client"))\n',
        "        return await attempt\n",
        "test_closing", "test_who_gives_up_waiting_for_a_connection_harms_no_other",
    ),
    Mutation(
        "a reader that others have had go on is read all the same", "storage/read/catch_up.py",
        "            if self._closed or not self.covers(offset):\n", "            if False:\n",
        "test_offsets_asked", "test_clients_share_one_reader",
    ),
    Mutation(
        "a search finds the entry after the one that holds the offset", "storage/read/search.py",
        "self._first(lambda batch: batch.next > offset,", "self._first(lambda batch: batch.base > offset,",
        "test_offsets_asked", "test_an_answer_begins_where_it_was_asked",
    ),
    Mutation(
        "a reader waits for a broker that has forgotten it", "pulsar/consumer/reader.py",
        "        if refusal is None:\n            self._metrics", "        if False:\n            self._metrics",
        "test_membership", "test_topics_of_the_cluster_that_are_deleted_come_back",
    ),
    Mutation(
        "idle readers stay open", "storage/read/catch_up.py",
        "        before = asyncio.get_running_loop().time() - self._idle\n", "        before = 0.0\n",
        "test_topics_come_and_go", "test_idle_partitions_keep_nothing_but_their_producers",
    ),
    Mutation(
        "idle tails stay open", "storage/read/tail_owner.py",
        "        if idle and not self._opening.locked():\n", "        if False:\n",
        "test_topics_come_and_go", "test_idle_partitions_keep_nothing_but_their_producers",
    ),
    Mutation(
        "a slot is served before it is read to its marker", "owned_log/holding.py",
        "            while position is None or position < end:\n", "            while position is None:\n",
        "test_group_slot", "test_commits_outlive_a_change_of_the_node",
    ),
    Mutation(
        "a commit is answered before its receipt", "owned_log/journal.py",
        "            send = self._producer.enqueue(metadata, payload, len(records))\n",
        "            send = self._producer.enqueue(metadata, payload, len(records))\n            for part in parts:\n"
        "                part.stored.done.done() or part.stored.done.set_result(None)\n",
        "test_group_slot", "test_commits_outlive_faults",
    ),
    Mutation(
        "a slot's holder does not mind another's marker", "owned_log/holding.py",
        "                if not own and found.producer:\n", "                if False:\n",
        "test_group_slot", "test_another_that_fences_costs_no_commit",
    ),
    Mutation(
        "offsets are told without a look at the slot's end", "groups/store/store.py",
        "        if confirmed:\n", "        if False:\n",
        "test_group_slot", "test_a_node_that_was_cut_off_shows_no_old_offset",
    ),
    Mutation(
        "a release stops the closing of a slot that is being lost", "owned_log/slot.py",
        "            await _to_its_end(holding.close())\n", "            await holding.close()\n",
        "test_group_slot", "test_a_slot_that_is_released_while_it_is_being_lost_leaves_nothing_open",
    ),
    Mutation(
        "draining throws away what has been received", "connection/client.py",
        "            self._drain = self._runner.drain = Drain(self._loop, self.wake)\n",
        "            self._drain = self._runner.drain = Drain(self._loop, self.wake)\n"
        "            self._intake.drop()\n",
        "test_connections", "test_draining_answers_what_it_stores",
    ),
    Mutation(
        "what is not yet there is no reason to wait", "storage/read/log_reader.py",
        "        if offset > self._end.offset:  # another node or a native producer may have got there first\n"
        "            await self._tails.refresh_end()\n",
        "",
        "test_two_nodes", "test_a_record_that_one_node_acknowledged_is_read_from_another",
    ),
    Mutation(
        "writers of a lost partition keep their names", "storage/topics/partition_logs.py",
        "                self._close(log_, log_.hand_over(flush=flush))\n", "                pass\n",
        "test_leadership", "test_a_producer_s_name_is_free_soon_for_the_next_leader",
    ),
    Mutation(
        "what was not on its way when the partition was lost is sent later", "pulsar/producer/producer.py",
        "            self._handing_over = True\n"
        '            self._fail_unwritten(ClientClosed("the producer"))\n',
        "            pass\n",
        "test_leadership", "test_what_a_node_gives_up_is_never_sent",
    ),
    Mutation(
        "a node that comes back sends again before it knows that it leads", "pulsar/producer/opening.py",
        "            await self._may_send.wait()\n", "            pass\n",
        "test_leadership", "test_a_node_that_was_away_sends_nothing_again_before_it_knows_that_it_leads",
    ),
    Mutation(
        "what another node tells of a topic does not outdate an answer on its way", "storage/topics/topics.py",
        "        self._finder.may_exist(name)\n        self._finder.changed(name)\n",
        "        self._finder.may_exist(name)\n",
        "test_topics_of_nodes", "test_what_another_node_did_to_a_topic_is_known_when_it_is_told",
    ),
    Mutation(
        "the watch of the namespace says nothing of partitions", "storage/topics/topics.py",
        "                self._refresh(self._known[name], ask_again=True)\n", "                pass\n",
        "test_topics_of_nodes", "test_partitions_that_another_node_added_are_noticed_by_the_watch",
    ),
    Mutation(
        "the first batch of a producer may be any right after its partition has moved",
        "storage/append/missing_batches.py",
        "            is_too_early = sequence > 0 and has_moved()\n", "            is_too_early = False\n",
        "test_leadership", "test_the_first_batches_of_a_producer_are_under_way_while_its_partition_moves",
    ),
    Mutation(
        "a gap is an error although what is missing may come again", "storage/append/missing_batches.py",
        "            if is_too_early:\n", "            is_too_early = False\n            if is_too_early:\n",
        "test_nodes", "test_an_idempotent_record_is_stored_once_through_kills",
    ),
    Mutation(
        "waiting fetches are not told that the partition is lost", "storage/partition.py",
        "                waiting.reschedule(loop_time())\n        self.end.wake_waiters()\n",
        "                waiting.reschedule(loop_time())\n        self.end._waiters.clear()\n",
        "test_leadership", "test_waiting_fetches_are_told_that_another_node_leads",
    ),
    Mutation(
        "group slots that the view gives to others are kept", "owned_log/owned_log.py",
        "                slot.release()\n", "                pass\n",
        "test_nodes", "test_nodes_serve_through_faults_of_all_kinds",
    ),
    Mutation(
        "a Produce goes by the view that it began with", "apis/produce.py",
        "    if append.error is not None:\n        return\n    try:\n        if cluster.serving",
        "    if True:\n        return\n    try:\n        if cluster.serving",
        "test_leader_checks", "test_what_a_view_takes_while_a_produce_is_prepared_is_not_appended",
    ),
    Mutation(
        "what goes straight asks nobody whether it may", "connection/straight/found.py",
        "        return authorization is None or bool(", "        return True or bool(",
        "test_rights_taken_away", "test_a_fetch_that_waits_is_answered_and_the_next_is_refused",
    ),
    Mutation(
        "what goes straight goes by the view that it was found by", "connection/straight/found.py",
        "        if cluster.snapshot is not self.view or cluster.serving is not Serving.SERVE or topic.forgotten:\n",
        "        if topic.forgotten:\n",
        "test_leader_checks", "test_a_produce_waits_until_a_node_that_was_paused_knows_what_it_has_missed",
    ),
    Mutation(
        "a Fetch that waits on its straight way is not there for what comes", "connection/straight/fetch.py",
        "        self._target.found.log.end.add_waiter(waiter)\n", "",
        "test_waiting_fetch", "test_a_waiting_fetch_gets_what_is_acknowledged",
    ),
    Mutation(
        "a Produce is not held after a pause", "apis/produce.py",
        "        if cluster.serving is Serving.HOLD:\n", "        if False:\n",
        "test_leader_checks", "test_a_produce_waits_until_a_node_that_was_paused_knows_what_it_has_missed",
    ),
)  # fmt: skip


def seen(bridge: Path, module: str, scenario: str, seeds: int = _SEEDS, noticed: int = 0) -> str:
    """What the explorer says of a scenario with the bridge in this directory; nothing if it finds no fault."""
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(_REPOSITORY)}
    command = [sys.executable, "-c", _PROGRAM, f"tests.schedules.{module}", scenario, str(noticed), str(seeds)]
    done = subprocess.run(command, env=environment, cwd=bridge, capture_output=True, text=True, check=False)
    return done.stdout.strip() or (f"broken: {done.stderr.strip().splitlines()[-1]}" if done.returncode else "")


def can_be_made(one: Mutation) -> bool:
    """Whether what it changes is there, once."""
    return all((_REPOSITORY / "bridge" / file).read_text().count(old) == 1 for file, old, _ in one.edits)


def copied(directory: Path) -> Path:
    """The bridge, where it may be changed."""
    half_written = shutil.ignore_patterns("*.pyc.*")  # bytecode goes with it: it is not that of the changed files alone
    shutil.copytree(_REPOSITORY / "bridge", directory / "bridge", ignore=half_written)
    return directory


def seen_with(one: Mutation, directory: Path) -> str:
    """What the explorer says of its scenario with the mutation made in an empty directory; nothing: not noticed."""
    copy = copied(directory)
    for file, old, new in one.edits:
        changed = copy / "bridge" / file
        changed.write_text(changed.read_text().replace(old, new))
    return seen(copy, one.module, one.scenario, one.seeds, one.noticed)


def _tried(one: Mutation, sound: dict[tuple[str, str], str]) -> str:
    key = (one.module, one.scenario)
    if key not in sound:
        with tempfile.TemporaryDirectory() as directory:
            sound[key] = seen(copied(Path(directory)), *key)
    if sound[key]:
        return f"PROVES NOTHING, it fails without ({sound[key]})"
    if not can_be_made(one):
        return "CANNOT BE MADE: the code has changed"
    with tempfile.TemporaryDirectory() as directory:
        return seen_with(one, Path(directory)) or "NOT NOTICED"


def main() -> int:
    """Try them; the number that went unnoticed or could not be tried."""
    wanted = [one for one in MUTATIONS if all(part in one.what for part in sys.argv[1:])]
    unnoticed = 0
    sound: dict[tuple[str, str], str] = {}
    for one in wanted:
        result = _tried(one, sound)
        unnoticed += result.startswith(("CANNOT", "NOT", "PROVES"))
        print(f"{one.what}\n    {one.scenario}: {result}", flush=True)
    return unnoticed


if __name__ == "__main__":
    sys.exit(main())
