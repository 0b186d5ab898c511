#!/usr/bin/env python3
# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
"""Breaks the batch tuner in many small ways, and checks that a test fails for each.

Works on a copy of the checkout, on the host runtime. Not part of CI: all mutations take about half
an hour on two cores.

  tests/mutation/tuner_mutations.py --check        each mutation still applies
  tests/mutation/tuner_mutations.py                all; exit status 1 if one survives
  tests/mutation/tuner_mutations.py paired trim      those whose file or text contains a word
"""
import sys

import pool_mutations

TUNE = "include/warpwright/tune/"
DETAIL = TUNE + "detail/"
TUNER = TUNE + "batch_tuner.hpp"
MODEL = DETAIL + "memory_model.hpp"
MODEL_DEFINITIONS = "include/warpwright/tune/detail/memory_model_definitions.hpp"
POOL = TUNE + "tuning_pool.hpp"
CAPTURED = POOL
STATE = DETAIL + "search/search_state.hpp"
FINAL = DETAIL + "search/final_choice_definitions.hpp"
LATENCY = DETAIL + "search/latency_check_definitions.hpp"
MEMORY = DETAIL + "search/measure_size_definitions.hpp"
SIZE = DETAIL + "search/measure_size_definitions.hpp"
BRACKET = DETAIL + "search/bracketing_definitions.hpp"
REFINE = DETAIL + "search/refinement_definitions.hpp"
WAVES = DETAIL + "search/wave_search_definitions.hpp"
PAIRED = DETAIL + "search/paired_comparison_definitions.hpp"
SEARCH = DETAIL + "batch_tuner_definitions.hpp"
RECORD = DETAIL + "store/tune_record.hpp"
DYNAMIC = DETAIL + "plan/batch_plan_definitions.hpp"

# In this order: the first that fails ends a mutation's run.
TESTS = [
    "tune_batch_tuner_limits", "tune_batch_tuner", "tune_batch_tuner_random", "tune_memory_model",
    "tune_tuning_pool", "tune_captured_workload", "tune_batch_tuner_stream", "tune_search_policies",
    "tune_stored_tuner", "tune_dynamic_batch_size",
]  # fmt: skip

# (file, text, replacement); the text occurs once in the file.
MUTATIONS = [
    # The budget and the model of the memory.
    (MODEL_DEFINITIONS, "return bound + tolerance(bound);", "return bound;"),
    (MODEL_DEFINITIONS, "bound_within(b) : bound_above(b);", "bound_above(b) : bound_above(b);"),
    (MODEL, "static constexpr double granules = 2.0;", "static constexpr double granules = 0.0;"),
    (MODEL, "static constexpr double relative_tolerance = 0.0025;",
     "static constexpr double relative_tolerance = 0.0;"),
    (MODEL_DEFINITIONS, "return points_needed() == 0 && b <= 2.0 * points_.back().batch;", "return true;"),
    (MODEL_DEFINITIONS, "  set_tolerances(1.0);\n", "  set_tolerances(0.1);\n"),
    (MEMORY, "if (s.model.predict(batch) <= budget) return true;", "if (likely <= budget) return true;"),
    (MEMORY, "if (s.model.predict(batch) <= budget) return true;",
     "if (s.model.predict(batch) <= 1.1 * budget) return true;"),
    (MEMORY, "if (knows) return false;", "if (knows) return true;"),
    (MEMORY, "return likely <= budget || (!knows", "return likely <= budget || (true"),
    (MEMORY, "!s.model.knows(next) && s.model.predict(next) > budget", "false"),
    (MEMORY, "s.hooks.guarded ? 2 * s.model.largest_measured() : 0", "0"),
    (STATE, "bytes > settings.budget_bytes &&", "bytes > 2 * settings.budget_bytes &&"),
    (STATE, "    hooks.reset_peak();\n", ""),
    (STATE, "bool const complete = exact || row.samples > 0 ||", "bool const complete = true ||"),
    (MEMORY, "(s.model.points() == 1 || likely <= 0.97 * budget)", "true"),
    (MEMORY, "return small_step && s.model.points() < 3", "return s.model.points() < 3"),
    (STATE, "if (bytes > row.memory_bytes) row.memory_bytes = bytes;", "row.memory_bytes = bytes;"),
    (STATE, "if (peak <= r.bytes) return false;", "return false;"),
    (STATE, "if (above && c.row.batch > batch &&", "if (false &&"),
    (TUNER, "hooks.guarded = (kind::is_exact || kind::is_capped) && settings.has_budget;",
     "hooks.guarded = true;"),
    (DETAIL + "search/tuned_memory.hpp", "if (capped_) memory.limit(budget_bytes);", ""),
    (DETAIL + "search/tuned_memory.hpp", "if (capped_) memory_.limit(limit_before_);", ""),
    (DETAIL + "batch_tuner_definitions.hpp", "if (!has_budget || memory.peak || memory.exact) return;", "return;"),
    # The latency limit.
    (LATENCY, "alpha * (more ? many[i] : few[i])", "alpha"),
    (LATENCY, "{0, 1, 3, 7, 15, 31, 63, 127, 255}", "{1, 2, 3, 7, 15, 31, 63, 127, 255}"),
    (LATENCY, "if (over_ <= plan_.allowed[look]) return latency_verdict::shown;",
     "if (over_ <= plan_.allowed[look] + 3) return latency_verdict::shown;"),
    (LATENCY, "if (seconds > s_.settings.objective.latency_limit_seconds()) ++over_;",
     "if (seconds > 1.05 * s_.settings.objective.latency_limit_seconds()) ++over_;"),
    (LATENCY, "for (std::size_t look = 0; look <= last_look_; ++look)",
     "for (std::size_t look = 0; look < 1; ++look)"),
    (LATENCY, "if (hopeless()) return latency_verdict::refused;", ""),
    (LATENCY, "if (!s_.has_time()) return latency_verdict::out_of_time;", ""),
    (LATENCY, "if (static_cast<double>(over_) > most) verdict = latency_verdict::refused;", ""),
    (LATENCY, "    over_ = 0;\n", ""),
    (LATENCY, "s_.at(batch).row.failures = 2;", ""),
    (FINAL, "if (!(room_ > 1.0) ||", "if (true ||"),
    (FINAL, "if (limited_) return confirm(batch);", "if (limited_) return true;"),
    (FINAL, "if (!show(batch)) continue;", "s_.at(batch).row.latency_shown = true;"),
    (LATENCY, "return 0.997 / empirical", "return 1.5 / empirical"),
    (LATENCY, "return share > least ? share : least;", "return share;"),
    (LATENCY, "< likely ? 0.8 : 0.5;", "< likely ? 0.5 : 0.5;"),
    (SIZE, "if (is_too_slow(s, batch)) {", "if (false) {"),
    (BRACKET, "outlast_disturbance(s, 0, disturbed);", ""),
    (BRACKET, "if (working > 2) {", "if (working > 0) {"),
    (BRACKET, "  } else if (is_too_slow(s, failed[0])) {", "  } else if (false) {"),
    (BRACKET, "if (has_time_for(s, next)) double_from(s, next);\n  }", "}"),
    (BRACKET, "++too_slow == 3", "++too_slow == 300"),
    # The choice, the soak, second chances.
    (FINAL, "if (batch != soaked_ && !soak(batch)) continue;", ""),
    (FINAL, "if (!retried_) outlast_shortage(batch);", ""),
    (FINAL, "s_.is_ok(batch) && retry_others();", "false;"),
    (FINAL, "s_.is_ok(batch) && retry_others();", "retry_others();"),
    (STATE, "hooks.device_is_full() ||", "false ||"),
    (FINAL, "if (verdict != latency_verdict::refused) return verdict;", "return verdict;"),
    (FINAL, "most_candidates = 1000;", "most_candidates = 10;"),
    (FINAL, "      s_.hooks.trim();\n      if (!s_.prepare(batch)) return;\n      if (s_.hooks.prepares)",
     "      if (!s_.prepare(batch)) return;\n      if (s_.hooks.prepares)"),
    (STATE, "c.row.status == tune_status::over_budget) return false;\n    if (c.row.failures == 1) return true;",
     "c.row.status == tune_status::over_budget) return false;\n    if (c.row.failures >= 1) return true;"),
    (STATE, "if (c.row.failures == 1) return true;", "if (c.row.failures == 1) return false;"),
    (STATE, "elapsed() - c.failed_at > disturbed_seconds", "true"),
    (STATE, "    ++row.failures;\n", ""),
    (STATE, "    error = nullptr;\n", ""),
    (STATE, "if (kind == exception_kind::device_lost) std::rethrow_exception(error);", ""),
    (STATE, "hooks.refusals() != refused_before_ ||", ""),
    (STATE, "refused_before_ = hooks.refusals();", ""),
    (STATE, "(settings.is_out_of_memory && settings.is_out_of_memory(error))", "false"),
    (STATE, "if (!settings.reject_exceptions) std::rethrow_exception(error);", ""),
    (SIZE, "fresh.failures = row.failures;", ""),
    (PAIRED, "return c.row.batch;\n  }\n  return 0;\n}\n\n// The best size, and",
     "return s.candidates.front().row.batch;\n  }\n  return 0;\n}\n\n// The best size, and"),
    (PAIRED, "value * (1.0 - error) >= best * share", "value >= best * share"),
    (PAIRED, "i == best ? 0.0 : ratio(i, best).log_half_width;", "0.0;"),
    (PAIRED, "most_blocks = 4;", "most_blocks = 1;"),
    (PAIRED, "if (block > 0) turns *= 2;", ""),
    (PAIRED, "if (r.log_mean + r.log_half_width > much_better &&", "if (false &&"),
    (PAIRED, "if (smaller && r.log_mean >= least &&", "if (false && smaller && r.log_mean >= least &&"),
    (PAIRED, "most_small = 3;", "most_small = 1;"),
    (PAIRED, "next = 1.1 * batch;", "next = 0.0 * batch;"),
    (PAIRED, "(least_share(s) - error)", "(least_share(s) - 0.0 * error)"),
    (PAIRED, "if (above != 0 && above != largest) list.push_back(above);", ""),
    (PAIRED, "round < 3 &&", "round < 1 &&"),
    (PAIRED, "if (largest != 0) list.push_back(largest);", ""),
    (PAIRED, "if (!ran || failed) return false;", ""),
    (SEARCH, "std::size_t const choice = agree(choose(s_.settings.last));",
     "std::size_t const choice = choose(s_.settings.last);"),
    (SEARCH, "if (next == agreed) break;", "break;"),
    (SEARCH, "if (r.rows[i].batch == choice) r.chosen_index = i;",
     "if (r.rows[i].batch == choice) r.chosen_index = i + 1;"),
    (SEARCH, "if (c.row.status == tune_status::ok && c.row.samples == 0) continue;", ""),
    # Time.
    (STATE, "if (settings.stop()) {", "if (false) {"),
    (STATE, "if (elapsed() < deadline_ && elapsed() + seconds <= deadline_) return true;", "return true;"),
    (STATE, "elapsed() + seconds <= deadline_", "true"),
    (STATE, "    clock_.add(seconds);\n", ""),
    (FINAL, "spent < s_.settings.soak_seconds", "false"),
    # Disturbances, steps and the shape of the curve.
    (SIZE, "return differs && factors[1] > 0.0 ? factors[1] : 1.0;", "return 1.0;"),
    (SIZE, "constexpr double strong = 1.4;", "constexpr double strong = 1e9;"),
    (SIZE, "row.seconds_per_batch /= factor;\n", ""),
    (BRACKET, "  check_steady(s);\n  std::size_t const works", "  std::size_t const works"),
    (BRACKET, " || !scan_for_any(s)) return;", " || true) return;"),
    (BRACKET, "s.candidates.front().row.status == tune_status::over_latency || ", ""),
    (WAVES, "    find_length(s, largest);\n", ""),
    (REFINE, "      steps_.try_ends(s_);\n", ""),
    (REFINE, "const most = score * (1.0 + 0.5 * s_.settings.tolerance);", "const most = score;"),
    (REFINE, "if (potential > worthwhile && potential > most.potential)", "if (potential > most.potential)"),
    # Limits that small sizes keep, and what a disturbance has refused.
    (FINAL, "return batch == 0 && not_shown_ != 0 ? smaller_than_refused() : batch;", "return batch;"),
    (FINAL, "batch = halve_gap(try_longer(batch));", "batch = try_longer(batch);"),
    (REFINE, "if (retry_refused()) search_gaps();", ""),
    (REFINE, "if (!steps_) look_below_best();", ""),
    (REFINE, "if (off > roughness_) roughness_ = off;", ""),
    (BRACKET, "    double_from(s, s.best());\n", ""),
    (SEARCH, "    if (!others_wait_) return;\n", "    return;\n"),
    (SIZE, "if (i >= 1 && !s.has_time(fastest)) break;", ""),
    (SIZE, "(runs > 1 && s.left() <= 0.0)", "false"),
    (SIZE, "if (score > 0.0 && score < HUGE_VAL) return;", "return;"),
    (TUNER, "if (cudaPeekAtLastError() == cudaErrorMemoryAllocation) return true;", ""),
    # Energy.
    (SIZE, "      calls = 0;\n", ""),
    (SIZE, "    if (now == end) continue;\n    end = now;\n", "    end = now;\n"),
    # The tuning pool and captured workloads.
    (POOL, "return held > peak ? held : peak;", "return peak;"),
    (POOL, "if (live > limit || bytes > limit - live) {", "if (live > limit) {"),
    (POOL, "peak_.store(live_bytes(), detail::memory_order::relaxed);", ""),
    (CAPTURED, "if (exec_.get() != nullptr && batch == batch_) {", "if (exec_.get() != nullptr) {"),
    (CAPTURED, "    trim();\n", ""),
    (CAPTURED, "    batch_ = batch;\n", ""),
    (CAPTURED, "if (report.code != cudaErrorStreamCaptureInvalidated) throw;", "throw;"),
    (CAPTURED, "if (captured.size(where_) == 0) {", "if (false) {"),
    (TUNER, "kind::is_preparation || workload_type::replays", "kind::is_preparation"),
    (DETAIL + "search/tuned_memory.hpp", "~tuned_workload() { drop_graph(); }", "~tuned_workload() {}"),
    # What the search finds between doubled sizes, and what it pays for it.
    (WAVES, "wave < 8 * s.settings.multiple || end <= wave", "end <= wave"),
    (WAVES, "    try_end(k + 1);\n", ""),
    (WAVES, "      0.5 * (s.find(low)->row.seconds_per_batch + s.find(high)->row.seconds_per_batch);",
     "      s.find(low)->row.seconds_per_batch;"),
    (WAVES, "double const allowed = noise > 0.01 ? noise : 0.01;", "double const allowed = 0.01;"),
    (REFINE, "        end_of_step(s_, batch, best);\n", ""),
    (REFINE, "{0.985, 0.96, 0.91}", "{0.985}"),
    # What a stored result may hold, and a loop whose size adapts.
    (RECORD, "point.batch <= record.points[i - 1].batch", "point.batch < record.points[i - 1].batch"),
    (RECORD, "row.batch % s.multiple == 0 && ", ""),
    (RECORD, "row.memory_predicted ? 0 : row.memory_bytes", "row.memory_bytes"),
    (RECORD, "row.latency_shown = s.objective.latency_limited();", "row.latency_shown = true;"),
    (DYNAMIC, "bool const tried = trying_ && before_ < count;", "bool const tried = trying_;"),
]

if __name__ == "__main__":
    pool_mutations.__doc__ = __doc__
    pool_mutations.TESTS = TESTS
    pool_mutations.MUTATIONS = MUTATIONS
    sys.exit(pool_mutations.main())
