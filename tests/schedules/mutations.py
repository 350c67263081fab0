"""Whether the explorer notices faults: breaks the bridge's code in one place at a time and looks which scenario fails.

    .venv/bin/python -m tests.schedules.mutations [part of a name]

Each mutation is made in a copy of `bridge/`, never here. A scenario that fails without any mutation proves
nothing: that is told as well. Not part of `make test`: it takes some minutes.
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
module, name, seeds = sys.argv[1:]
ran, _, failed = explore(module, name, Plan(tuple(range(int(seeds))), Order.ASYNCIO, 0, 1))
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


MUTATIONS = (
    Mutation(
        "the end grows and no waiter is woken", "storage/read/log_end.py",
        "        self.offset = max(self.offset, offset)\n        self.wake_waiters()\n",
        "        self.offset = max(self.offset, offset)\n",
        "test_waiting_fetch", "test_entries_of_native_writers_wake_a_waiting_fetch",
    ),
    Mutation(
        "a Fetch looks first and asks to be told then", "apis/fetch.py",
        "        for log in logs:\n            log.end.add_waiter(grown)\n",
        "        loop.call_soon(lambda: [log.end.add_waiter(grown) for log in logs])\n",
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
        "            if send.connection is connection or self._write(connection, send):\n",
        "            if send.sent_at or self._write(connection, send):\n",
        "test_faults", "test_producers_do_not_see_short_faults",
    ),
    Mutation(
        "pending sends are sent again in another order", "pulsar/producer/producer.py",
        "        for send in self._pending.take_all():\n            if send.connection",
        "        for send in reversed(self._pending.take_all()):\n            if send.connection",
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
        "            sent = self._producer.send(metadata, payload, len(records))\n",
        "            sent = self._producer.send(metadata, payload, len(records))\n            for part in parts:\n"
        "                part.write.future.done() or part.write.future.set_result(None)\n",
        "test_group_slot", "test_commits_outlive_faults",
    ),
    Mutation(
        "a slot's holder does not mind another's marker", "owned_log/holding.py",
        "                if not own and found.producer:\n", "                if False:\n",
        "test_group_slot", "test_a_bridge_of_an_older_version_costs_no_commit",
    ),
    Mutation(
        "offsets are told without a look at the slot's end", "groups/store/store.py",
        "        if confirmed:\n", "        if False:\n",
        "test_group_slot", "test_a_node_that_was_cut_off_shows_no_old_offset",
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
        "the end is told from memory", "storage/partition.py",
        "            await self._tails.refresh_end()\n            return self.end.offset\n",
        "            await self._tails.open()\n            return self.end.offset\n",
        "test_two_nodes", "test_the_end_is_never_behind_what_another_node_acknowledged",
    ),
    Mutation(
        "writers of a lost partition keep their names", "storage/topics/partition_logs.py",
        "                self._close(log_.hand_over(flush=flush))\n", "                pass\n",
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
        "        self._finder.changed(name)\n        self._missing_ids",
        "        self._missing_ids",
        "test_topics_of_nodes", "test_what_another_node_did_to_a_topic_is_known_when_it_is_told",
    ),
    Mutation(
        "the watch of the namespace says nothing of partitions", "storage/topics/topics.py",
        "                self._refresh(self._known[name], ask_again=True)\n", "                pass\n",
        "test_topics_of_nodes", "test_partitions_that_another_node_added_are_noticed_by_the_watch",
    ),
    Mutation(
        "the start of a log is stored without a look at what is stored", "storage/topics/administration.py",
        "            if topic_properties.log_start(properties, partition) >= offset:\n",
        "            if topic_properties.log_start(properties, partition) == offset:\n",
        "test_topics_of_nodes", "test_the_start_of_a_log_only_goes_up_over_nodes",
    ),
    Mutation(
        "the first batch of a producer may be any right after its partition has moved", "storage/append/appender.py",
        "        if sequence and writer.sequences.last is None and self._has_moved():\n", "        if False:\n",
        "test_leadership", "test_the_first_batches_of_a_producer_are_under_way_while_its_partition_moves",
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
        "a Produce is not held after a pause", "apis/produce.py",
        "        if cluster.serving is Serving.HOLD:\n", "        if False:\n",
        "test_leader_checks", "test_a_produce_waits_until_a_node_that_was_paused_knows_what_it_has_missed",
    ),
)  # fmt: skip


def seen(bridge: Path, module: str, scenario: str) -> str:
    """What the explorer says of a scenario with the bridge in this directory; nothing if it finds no fault."""
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(_REPOSITORY)}
    command = [sys.executable, "-c", _PROGRAM, f"tests.schedules.{module}", scenario, str(_SEEDS)]
    done = subprocess.run(command, env=environment, cwd=bridge, capture_output=True, text=True, check=False)
    return done.stdout.strip() or (f"broken: {done.stderr.strip().splitlines()[-1]}" if done.returncode else "")


def main() -> int:
    """Try them; the number that went unnoticed or could not be tried."""
    wanted = [one for one in MUTATIONS if all(part in one.what for part in sys.argv[1:])]
    unnoticed = 0
    sound: dict[tuple[str, str], str] = {}
    for one in wanted:
        with tempfile.TemporaryDirectory() as directory:
            copy = Path(directory)
            shutil.copytree(_REPOSITORY / "bridge", copy / "bridge", ignore=shutil.ignore_patterns("__pycache__"))
            key = (one.module, one.scenario)
            if key not in sound:
                sound[key] = seen(copy, *key)
            file = copy / "bridge" / one.file
            text = file.read_text()
            if text.count(one.old) != 1:
                result = "CANNOT BE MADE: the code has changed"
            else:
                file.write_text(text.replace(one.old, one.new))
                result = seen(copy, *key) or "NOT NOTICED"
            if sound[key]:
                result = f"PROVES NOTHING, it fails without ({sound[key]})"
        unnoticed += result.isupper() or result.startswith(("CANNOT", "NOT", "PROVES"))
        print(f"{one.what}\n    {one.scenario}: {result}", flush=True)
    return unnoticed


if __name__ == "__main__":
    sys.exit(main())
