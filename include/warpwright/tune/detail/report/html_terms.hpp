// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The HTML report's key of terms.
#pragma once

#include <warpwright/core/detail/config.hpp>

WARPWRIGHT_BEGIN

namespace detail {

struct html_term {
  char const* name;
  char const* meaning;
};

constexpr html_term html_terms[] = {
    {"batch", "the number of items that one call of the workload processes"},
    {"items/s", "throughput of batches that run back to back"},
    {"\xC2\xB1",
     "half of the interval of 95 % confidence of the throughput; after \"ratio\", that of "
     "the ratio to the fastest size, which is narrower where both were slow at the same time"},
    {"within \xE2\x80\xA6 of the best",
     "the tolerance: the smallest size whose throughput is not lower is chosen"},
    {"compared in turns", "the size ran alternately with the fastest, so that drift hits both"},
    {"latency", "the time of a single batch on an idle device"},
    {"median", "half of the calls take no longer"},
    {"p99",
     "the 99th percentile: 99 % of the calls take no longer; of fewer than 100 calls, the "
     "slowest"},
    {"over the limit", "calls that took longer than the limit of the latency, of all calls"},
    {"shown", "the calls show by a binomial test that the limit is kept"},
    {"memory", "the peak of all runs of the size"},
    {"~", "predicted by the model of the memory, not measured"},
    {"upper bound", "the memory that a size may need according to the model, margin included"},
    {"over budget", "needs more memory than the budget; where that was predicted, it did not run"},
    {"out of memory", "an allocation failed, also when it was tried again"},
    {"over latency limit", "was not shown to keep the limit of the latency"},
    {"failed", "threw another exception, also when it was tried again"},
    {"device slower by",
     "than at the beginning, as another size told; the throughput is corrected by it"},
    {"bracketing", "sizes were doubled, and failed ones tried again"},
    {"refinement", "sizes between these were tried"},
    {"comparison", "the best sizes ran in turns"},
    {"latency calls", "single calls showed that the limit of the latency is kept"},
    {"soak", "the choice ran again, independently"},
};

}  // namespace detail

WARPWRIGHT_END
