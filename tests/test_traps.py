"""Where each known way of getting the numbers of a GPU profile wrong is guarded.

Each was found in a tool or in a file. A test that guards one may be changed or moved, and the
list with it, but not lost.
"""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
# What goes wrong -> the tests that would fail.
GUARDS = {
    "durations of concurrent kernels are added up": (
        "analyses/test_utilisation.py::test_utilisation_is_that_of_the_instants",
        "analyses/test_breakdown.py::test_any_recording_splits_as_its_instants_do",
    ),
    "activities of all devices are merged, or spans of devices are added up": (
        "analyses/test_breakdown.py::test_any_recording_splits_as_its_instants_do",
    ),
    "streams of two processes or contexts are taken for one": (
        "readers/nsys/test_nsys_sqlite.py::test_kernels_come_with_names_process_and_place",
        "readers/test_merged_ranks.py::test_processes_of_the_same_number_on_two_hosts_are_not_one_process",
    ),
    "copies or memsets count as idle or as compute": (
        "analyses/test_breakdown.py::test_drawn_spans_split_exactly",
    ),
    "a copy that is hidden on one device counts as hidden on the other": (
        "analyses/test_peer_matrix.py::test_copy_may_be_hidden_on_one_end_and_exposed_on_the_other",
    ),
    "printed percentages are compared between files": (
        "analyses/test_totals.py::test_shares_are_of_times_not_of_what_was_printed",
        ("readers/test_corpus.py::test_shares_recomputed_from_times_agree_with_the_printed_ones"),
    ),
    "times of a summary, added up over devices, are divided by wall time": (
        "test_reports.py::test_what_a_summary_cannot_tell_is_none_with_the_reason",
    ),
    "time of API calls is added to that of the GPU": (
        "analyses/test_totals.py::test_api_calls_are_no_part_of_gpu_activities",
        "analyses/test_summaries.py::test_api_calls_are_no_gpu_activities",
    ),
    "copies of a kind without a name are dropped": (
        "readers/nsys/test_nsys_sqlite.py::test_a_copy_lies_where_its_memory_does_not_where_it_ran",
        "readers/nvprof/test_nvprof_sqlite.py::test_copies_of_both_tables_lie_where_their_memory_does",
        "analyses/test_totals.py::test_copies_of_an_unknown_kind_are_shown",
    ),
    "nvprof's table of peer copies is not read": (
        "readers/nvprof/test_nvprof_sqlite.py::test_copies_of_both_tables_lie_where_their_memory_does",
    ),
    "a peer copy counts on both of its devices": (
        "readers/nvprof/test_nvprof_text.py::test_each_peer_copy_of_a_real_log_is_counted_once",
        "analyses/test_real_recordings.py::test_peer_copies_count_once_whether_direct_or_staged",
    ),
    "copies and memsets of ROCm count as kernels": (
        "readers/xplane/test_xplane_rocm.py::test_copies_of_rocm_are_no_kernels",
        "readers/xplane/test_xplane_rocm.py::test_each_activity_is_of_one_table",
        "readers/kineto/test_kineto_rocm.py::test_copies_among_the_kernels_of_old_traces_are_copies",
    ),
    "copies of pinned memory, or between devices, count as local where ROCm names them so": (
        (
            "readers/kineto/test_kineto_rocm.py::"
            "test_every_copy_has_the_direction_and_the_bytes_that_its_call_asks_for"
        ),
        "readers/xplane/test_xplane_rocm.py::test_what_rocm_does_not_tell_of_copies_is_a_note",
    ),
    "a field that is not needed, or a number written as a text, refuses a file": (
        "readers/test_json_field_types.py::test_fields_of_a_drawn_trace_of_pytorch",
        "readers/kineto/test_kineto_rocm.py::test_a_trace_of_rocm_is_read_although_numbers_are_strings",
        (
            "readers/xplane/test_xplane_field_types.py::"
            "test_a_value_of_an_event_as_another_type_changes_that_event_alone"
        ),
    ),
    "the name of its call tells a copy's kind": (
        "readers/nsys/test_nsys_sqlite.py::test_a_peer_copy_is_known_by_its_activity_not_by_its_call",
    ),
    "a copy within a device counts as traffic between devices, or one between two does not": (
        "readers/nsys/test_nsys_sqlite.py::test_a_copy_lies_where_its_memory_does_not_where_it_ran",
        "analyses/test_transfers.py::test_sums_and_quantiles_are_those_of_plain_lists",
    ),
    "copies between devices through the host look like copies of the host": (
        "readers/nsys/test_nsys_sqlite.py::test_two_halves_through_the_host_are_one_staged_peer_copy",
    ),
    "kernels that communicate count as compute": (
        "test_cuda.py::test_communication_kernels_are_told_from_compute",
        "analyses/test_totals.py::test_kernels_that_communicate_are_named_and_stay_kernels",
    ),
    "migrations of managed memory are mixed with copies": (
        "analyses/test_transfers.py::test_sums_and_quantiles_are_those_of_plain_lists",
        "readers/nvprof/test_nvprof_text.py::test_migrations_of_unified_memory_add_up_over_devices",
    ),
    "throughput is a mean of rates, in whole megabytes, or infinite": (
        "analyses/test_transfers.py::test_sums_and_quantiles_are_those_of_plain_lists",
        "analyses/test_transfers.py::test_sums_and_quantiles_are_those_of_plain_lists",
        "test_units.py::test_nsys_megabyte_is_a_million_bytes_and_its_kib_1024",
    ),
    "asynchronous copies of pageable memory count as asynchronous": (
        "analyses/test_transfers.py::test_pageable_copies_by_asynchronous_calls_are_counted_once",
    ),
    "times that were not collected count, or events without length break sums": (
        "readers/nsys/test_nsys_sqlite.py::test_rows_without_times_are_left_out",
        "readers/nvprof/test_nvprof_sqlite.py::test_records_without_times_are_left_out_counted_and_told",
        "analyses/test_breakdown.py::test_any_recording_splits_as_its_instants_do",
    ),
    "one correlation id has several calls": (
        "analyses/test_ranges.py::test_of_two_calls_with_one_id_the_earlier_launched",
        "analyses/test_transfers.py::test_sums_and_quantiles_are_those_of_plain_lists",
    ),
    "a process is taken to use one device": (
        "analyses/test_breakdown.py::test_any_recording_splits_as_its_instants_do",
    ),
    "a table or column that is not there removes the rest": (
        "readers/nsys/test_nsys_sqlite.py::test_missing_memsets_are_empty_and_keep_the_copies",
        "readers/nsys/test_nsys_sqlite.py::test_an_old_export_without_an_optional_column_is_read",
        "readers/nvprof/test_nvprof_sqlite.py::test_tables_that_older_versions_lack_may_be_absent",
    ),
    "graphs recorded as a whole look like an idle device": (
        "readers/nsys/test_nsys_sqlite.py::test_graphs_recorded_as_a_whole_are_told",
        "test_reports.py::test_graphs_recorded_as_a_whole_are_said_to_be_missing",
    ),
    "labels and names of reports change from version to version": (
        "test_cuda.py::test_every_spelling_of_a_copy_is_one_kind",
        "readers/nsys_stats/test_nsys_stats.py::test_layouts_of_all_years_give_the_same_rows",
    ),
    "what could not be read is shown as zero": (
        "readers/nsys_stats/test_nsys_stats.py::test_report_without_cuda_is_an_empty_recording",
        "readers/test_broken.py::test_fault_says_what_where_and_what_to_do",
        "test_units.py::test_unknown_is_never_shown_as_zero",
    ),
    "separators, units glued to numbers, names with commas, rows of units": (
        "readers/nsys_stats/test_nsys_stats.py::test_locale_follows_from_columns_that_must_be_integers",
        "readers/nvprof/test_nvprof_csv.py::test_each_column_has_its_own_unit",
        "readers/nvprof/test_nvprof_trace.py::test_text_and_csv_give_the_same_rows",
    ),
    "a program's output and several processes stand in one log": (
        "readers/nvprof/test_nvprof_text.py::test_every_variant_gives_the_same_rows",
        "readers/nvprof/test_nvprof_text.py::test_runs_of_one_file_are_told_apart_and_not_added_up",
        "readers/nvprof/test_nvprof_text.py::test_each_of_nvprofs_doubts_becomes_one_note",
    ),
    "an old export is taken for that of a new report": (
        "readers/nsys/test_nsys_rep.py::test_a_new_report_under_an_old_name_is_exported_anew",
    ),
    "clocks of ranks differ": (
        "readers/test_merged_ranks.py::test_ranks_of_one_host_keep_their_devices_and_share_a_clock",
        "readers/test_merged_ranks.py::test_files_without_a_common_clock_begin_at_0_and_say_so",
    ),
    "kernels of one side vanish from a comparison, or a recording is compared with itself": (
        "comparisons/test_comparisons.py::test_kernels_that_one_side_lacks_are_kept",
        "comparisons/test_verdicts.py::test_a_verdict_says_how_much_the_sides_differ_and_what_makes_it",
        "test_statistics.py::test_one_run_has_no_interval",
    ),
    "the user's file is written to": (
        "readers/nsys/test_nsys_sqlite.py::test_nothing_is_written_beside_the_users_file",
        "readers/test_contract.py::test_what_the_user_gave_is_left_as_it_was",
        "readers/nsys/test_nsys_rep.py::test_a_real_stream_is_imported_and_left_as_it_was",
    ),
    "staged peer copies have no label": (
        "readers/nsys/test_nsys_sqlite.py::test_two_halves_through_the_host_are_one_staged_peer_copy",
        "readers/nvprof/test_nvprof_sqlite.py::test_copies_of_both_tables_lie_where_their_memory_does",
        "readers/nsys/test_nsys_rep.py::test_peer_copies_are_direct_or_staged",
    ),
    "the device that a peer copy ran on is taken for its source": (
        "readers/nsys/test_nsys_sqlite.py::test_a_copy_lies_where_its_memory_does_not_where_it_ran",
        (
            "readers/nvprof/test_nvprof_trace.py::"
            "test_peer_copies_have_source_and_target_and_not_the_device_they_ran_on"
        ),
    ),
    "the two tools number kinds of memory differently": (
        "readers/nsys/test_nsys_sqlite.py::test_memory_kinds_are_numbered_as_nsys_numbers_them",
        "readers/nvprof/test_nvprof_sqlite.py::test_memory_kinds_are_cuptis_not_those_of_nsys",
    ),
    "correlation ids repeat across processes": (
        (
            "readers/nsys/test_nsys_sqlite.py::"
            "test_processes_that_number_their_calls_alike_keep_their_pairs_apart"
        ),
        "analyses/test_utilisation.py::test_latencies_are_those_from_each_activity_to_its_earliest_call",
    ),
    "floats lose nanoseconds": (
        "readers/nvprof/test_nvprof_sqlite.py::test_times_stay_exact_integers_since_the_first_activity",
        "test_intervals.py::test_nanoseconds_of_the_unix_epoch_stay_exact",
    ),
    "no GPU work and not recorded look the same": (
        (
            "readers/nsys/test_nsys_sqlite.py::"
            "test_a_traced_run_without_gpu_work_has_empty_tables_and_a_note"
        ),
        "readers/nsys/test_nsys_sqlite.py::test_an_export_whose_trace_was_off_says_so",
        "readers/kineto/test_kineto_rocm.py::test_a_trace_without_gpu_work_says_so_and_gives_no_zeros",
    ),
    "the tool's own doubts are lost": (
        "readers/nsys/test_nsys_sqlite.py::test_what_nsys_doubts_is_told_and_nothing_else",
        "test_reports.py::test_doubts_of_tool_and_reader_come_first_in_their_own_words",
    ),
    "starts of nvprof's traces are rounded, and its kilobytes are 1024 bytes": (
        "readers/nvprof/test_nvprof_trace.py::test_resolution_of_starts_is_that_of_the_last_printed_digit",
        "readers/nvprof/test_nvprof_trace.py::test_kilobytes_are_1024_bytes",
    ),
    "sections of ranges repeat whole tables of nvprof": (
        "readers/nvprof/test_nvprof_text.py::test_every_variant_gives_the_same_rows",
        "readers/nvprof/test_nvprof_csv.py::test_every_variant_gives_the_same_rows",
    ),
    "databases lack the process, or hold views and tables without rows": (
        "readers/nsys/test_nsys_sqlite.py::test_an_old_export_without_an_optional_column_is_read",
        "readers/nsys/test_nsys_sqlite.py::test_a_view_instead_of_a_table_is_read",
    ),
    "API calls are counted twice where their backtraces were recorded": (
        "readers/nsys/test_nsys_sqlite.py::test_a_call_with_a_backtrace_counts_once",
        "readers/nsys_stats/test_nsys_stats.py::test_calls_with_backtraces_stand_once_in_sums",
    ),
    "a whole table looks like an excerpt where its shares have few digits": (
        "analyses/test_totals.py::test_whole_percentages_do_not_make_an_excerpt",
        "analyses/test_totals.py::test_an_excerpt_of_whole_percentages_is_one_still",
    ),
    "the version that opened a recording is taken for the one that recorded it": (
        "readers/nsys/test_nsys_rep.py::test_the_version_is_that_of_the_nsys_that_recorded",
        "readers/nsys/test_nsys_sqlite.py::test_the_version_that_recorded_is_not_the_one_that_exported",
    ),
    "what a tool could not collect is 0": (
        "readers/nsys/test_nsys_sqlite.py::test_what_nsys_could_not_collect_is_unknown_and_not_zero",
        (
            "readers/nsys/test_nsys_rep.py::"
            "test_why_no_gpu_work_was_collected_is_found_in_the_report_itself"
        ),
        (
            "readers/nsys/test_nsys_sqlite.py::"
            "test_work_that_calls_started_and_nsys_did_not_record_is_unknown"
        ),
    ),
    "several runs in one text are added up": (
        "readers/nvprof/test_nvprof_text.py::test_runs_of_one_file_are_told_apart_and_not_added_up",
        "readers/nsys_stats/test_nsys_stats.py::test_reports_of_several_recordings_are_not_added_up",
        (
            "readers/nvprof/test_nvprof_trace.py::"
            "test_traces_of_several_runs_share_no_clock_and_are_not_put_together"
        ),
    ),
    "warm-up of the first steps is compared": (
        "comparisons/test_comparisons.py::test_steps_of_the_start_are_left_out_where_asked",
    ),
    "a kernel counts once per level of ranges of one text": (
        "analyses/test_ranges.py::test_any_launch_counts_once_in_each_row",
        ("facts/test_operations.py::test_work_of_each_operation_is_what_the_ids_in_the_trace_say"),
        "analyses/test_steps.py::test_a_step_within_one_of_the_same_text_is_no_further_step",
    ),
    "a part is said to be a share of a difference that other parts cancel": (
        "comparisons/test_verdicts.py::test_parts_that_cancel_out_are_told_with_their_signs",
        "comparisons/measure/test_difference_parts.py::test_shares_of_what_cancels_out_are_not_told",
    ),
    "growth from nothing is 100 %": (
        "comparisons/test_verdicts.py::test_a_verdict_says_how_much_the_sides_differ_and_what_makes_it",
    ),
    "what was sampled is compared as if all had been counted": (
        (
            "comparisons/measure/test_comparability.py::"
            "test_a_number_of_steps_that_differs_by_sampling_alone_is_no_difference"
        ),
    ),
    "times before the start of a recording do not fit into unsigned numbers": (
        (
            "show/exporters/test_perfetto.py::"
            "test_what_began_before_the_recording_is_kept_and_all_times_are_shifted"
        ),
    ),
    "the device of the largest share is named, not that of the largest cost": (
        ("findings/test_findings.py::test_a_device_that_computes_less_wins_nothing_for_the_step"),
        "show/test_expected.py::test_rows_that_a_finding_names_are_never_cut",
    ),
    "times of several batch sizes or numbers of devices are taken for one": (
        (
            "sweeps/test_measured.py::"
            "test_each_batch_size_scales_apart_and_is_named_where_there_are_several"
        ),
        (
            "sweeps/test_measured.py::"
            "test_numbers_of_devices_are_not_mixed_in_the_time_of_a_batch_size"
        ),
    ),
}


def functions(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("trap", GUARDS)
def test_trap_is_guarded(trap):
    for guard in GUARDS[trap]:
        file, _, name = guard.partition("::")
        assert name in functions(TESTS / file)
