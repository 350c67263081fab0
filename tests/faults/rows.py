"""Kinds of faults, each with what is required of the bridge and the tests that show it."""

from __future__ import annotations

from typing import Final, NamedTuple


class Fault(NamedTuple):
    """One kind of fault."""

    number: str
    fault: str
    required: str
    tests: tuple[str, ...] = ()
    """Files, or `file::test`, under tests/."""


FAULTS: Final = (
    Fault("R0", "none, ten minutes of members, topics and nodes that come and go", "every answer is true", (
        "faults/nodes/test_changes.py::test_every_answer_is_true_for_ten_minutes",
    )),
    Fault("R1", "the bridge is killed", "nothing lost; groups go on", (
        "faults/test_bridge.py::test_nothing_acknowledged_is_lost_when_the_bridge_is_killed",
        "faults/test_groups.py::test_no_committed_offset_is_lost_when_the_bridge_or_pulsar_is_killed",
        "faults/test_idempotence.py::test_idempotent_producers_survive_kills_of_bridge_and_pulsar",
    )),
    Fault("R2", "the bridge is stopped, and started again", "what was received is answered", (
        "faults/test_bridge.py::test_a_stopping_bridge_answers_what_it_has_received",
        "faults/test_stops.py::test_what_fails_in_a_restart_was_not_stored",
    )),
    Fault("R3", "the bridge is frozen", "a pause", ("faults/test_bridge.py::test_a_stopped_bridge_is_a_pause",)),
    Fault("R4", "Pulsar is killed, and started again", "nothing lost; clients repeat", (
        "faults/test_broker.py::test_no_acknowledged_record_is_lost_when_pulsar_is_killed",
    )),
    Fault("R5", "Pulsar is frozen", "a pause; memory stays", (
        "faults/test_broker.py::test_a_stopped_pulsar_is_a_pause",
    )),
    Fault("R6", "topics are unloaded", "nothing lost", (
        "faults/test_broker.py::test_topics_and_bundles_are_unloaded_under_load",
    )),
    Fault("R7", "bundles are split, unloaded and moved", "nothing lost", (
        "pulsar_cluster/test_moves.py::test_bundles_are_split_unloaded_and_moved_under_load",
    )),
    Fault("R8", "ledgers roll over", "offsets run on", (
        "faults/test_ledgers.py::test_offsets_run_on_over_ledgers_while_they_roll",
    )),
    Fault("R9", "ledgers are trimmed under readers", "OFFSET_OUT_OF_RANGE below the log's start", (
        "faults/test_ledgers.py::test_below_the_log_start_is_out_of_range_and_reset_works",
        "faults/test_ledgers.py::test_an_all_trimmed_log_keeps_its_next_offset",
    )),
    Fault("R10", "connections are reset, on either side", "a pause", (
        "faults/network/test_resets.py::test_resets_are_a_pause",
    )),
    Fault("R11", "silence, on either side of a node", "a pause", (
        "faults/nodes/test_cut_off.py::test_a_node_is_cut_off_from_pulsar",
        "faults/nodes/test_cut_off.py::test_a_node_is_cut_off_from_clients",
    )),
    Fault("R12", "requests in single bytes, cut at any byte", "answered, or nothing of them done", (
        "fuzz/test_hostile.py::test_slow_clients_and_resets_cost_no_descriptors",
    )),
    Fault("R13", "200 ms of delay, or one packet in five lost, on either side",
          "pipelined: not one batch a round trip; slower, and nothing else", (
        "faults/network/test_delay.py::test_batches_in_flight_together_share_a_round_trip",
        "faults/network/test_loss.py::test_lost_packets_cost_time_alone",
    )),
    Fault("R14", "the answer to an append is lost", "the repetition is recognised", (
        "storage/append/test_idempotence.py::test_a_repetition_has_its_original_offset_and_is_not_stored",
        "storage/append/test_idempotence.py::test_the_past_outlives_the_bridge",
    )),
    Fault("R21", "the disk of Pulsar is full", "refused, and taken when there is space", (
        "faults/test_full_disk.py::test_a_bookie_that_takes_no_more_is_a_pause",
    )),
    Fault("R22", "the clock jumps by two days", "no session ends, no token is taken early", (
        "faults/test_clock.py",
        "security/test_tokens.py::test_a_clock_that_jumps_by_two_days_takes_no_token_before_its_time_and_none_after_it",
    )),
    Fault("R23", "no descriptors are left", "who is connected is served; others come in later", (
        "faults/resources/test_descriptors.py::test_who_is_connected_is_served_and_others_come_in_later",
    )),
    Fault("R24", "512 MiB of memory and full load", "clients wait", (
        "faults/resources/test_memory.py::test_clients_wait_where_memory_is_short",
    )),
    Fault("R25", "a topic is deleted and made again under load", "no record of the old one in the new one", (
        "faults/test_recreated.py::test_a_topic_deleted_and_recreated_under_load_is_another_topic",
    )),
    Fault("R26", "partitions are added under load", "nothing lost", (
        "faults/test_added_partitions.py::test_partitions_are_added_under_load",
    )),
    Fault("R27", "more than the bridge can take", "clients wait; memory stays", (
        "hostile/test_costs.py::test_attacks_of_many_requests",
    )),
)  # fmt: skip
