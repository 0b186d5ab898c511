// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The library's own declarations of CUPTI's records, against the toolkit's where it has them.
#include "support/catch.hpp"

#include <warpwright/core/detail/system/activity_records.hpp>

#include <cstddef>

#if __has_include(<cupti.h>)
#include <cuda.h>
#include <cupti.h>

namespace ww = warpwright::detail;

#define SAME(ours, member, theirs, theirs_member)                                \
  static_assert(offsetof(ww::ours, member) == offsetof(theirs, theirs_member) && \
                    sizeof(ww::ours::member) == sizeof(theirs::theirs_member),   \
                #member)

#if CUPTI_API_VERSION >= 130000
using kernel = CUpti_ActivityKernel10;
using copy = CUpti_ActivityMemcpy6;
#elif CUPTI_API_VERSION >= 18
using kernel = CUpti_ActivityKernel9;
using copy = CUpti_ActivityMemcpy5;
#endif
SAME(kernel_activity, start, kernel, start);
SAME(kernel_activity, end, kernel, end);
SAME(kernel_activity, registers, kernel, registersPerThread);
SAME(kernel_activity, device, kernel, deviceId);
SAME(kernel_activity, stream, kernel, streamId);
SAME(kernel_activity, dynamic_shared, kernel, dynamicSharedMemory);
SAME(kernel_activity, correlation, kernel, correlationId);
SAME(kernel_activity, name, kernel, name);
static_assert(offsetof(ww::kernel_activity, grid) == offsetof(kernel, gridX), "grid");
static_assert(offsetof(ww::kernel_activity, block[2]) == offsetof(kernel, blockZ), "block");

SAME(copy_activity, direction, copy, copyKind);
SAME(copy_activity, source, copy, srcKind);
SAME(copy_activity, destination, copy, dstKind);
SAME(copy_activity, bytes, copy, bytes);
SAME(copy_activity, start, copy, start);
SAME(copy_activity, end, copy, end);
SAME(copy_activity, device, copy, deviceId);
SAME(copy_activity, stream, copy, streamId);
SAME(copy_activity, correlation, copy, correlationId);

using peer_copy = CUpti_ActivityMemcpyPtoP4;
SAME(copy_activity, direction, peer_copy, copyKind);
SAME(copy_activity, bytes, peer_copy, bytes);
SAME(copy_activity, end, peer_copy, end);
SAME(copy_activity, stream, peer_copy, streamId);
SAME(copy_activity, peer_correlation, peer_copy, correlationId);

static_assert(sizeof(copy) >= sizeof(ww::copy_activity) &&
                  sizeof(peer_copy) >= sizeof(ww::copy_activity),
              "a whole copy_activity is read");

using fill = CUpti_ActivityMemset4;
SAME(fill_activity, value, fill, value);
SAME(fill_activity, bytes, fill, bytes);
SAME(fill_activity, end, fill, end);
SAME(fill_activity, stream, fill, streamId);
SAME(fill_activity, correlation, fill, correlationId);

#if CUPTI_API_VERSION >= 20
using graph = CUpti_ActivityGraphTrace2;
#else
using graph = CUpti_ActivityGraphTrace;
#endif
SAME(graph_activity, correlation, graph, correlationId);
SAME(graph_activity, start, graph, start);
SAME(graph_activity, end, graph, end);
SAME(graph_activity, device, graph, deviceId);
SAME(graph_activity, graph, graph, graphId);
SAME(graph_activity, stream, graph, streamId);

SAME(call_activity, function, CUpti_ActivityAPI, cbid);
SAME(call_activity, start, CUpti_ActivityAPI, start);
SAME(call_activity, end, CUpti_ActivityAPI, end);
SAME(call_activity, thread, CUpti_ActivityAPI, threadId);
SAME(call_activity, correlation, CUpti_ActivityAPI, correlationId);
SAME(call_activity, result, CUpti_ActivityAPI, returnValue);

namespace {

int value_of(ww::activity_kind kind) { return static_cast<int>(kind); }
int value_of(ww::activity_memory memory) { return static_cast<int>(memory); }
int value_of(ww::activity_copy direction) { return static_cast<int>(direction); }

TEST_CASE("enumerators have CUPTI's values", "[observe][activity]") {
  CHECK(ww::is_driver_launch(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel));
  CHECK(ww::is_driver_launch(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz));
  CHECK(ww::is_driver_launch(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx));
  CHECK(ww::is_driver_launch(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz));
  CHECK(ww::driver_call_limit > CUPTI_DRIVER_TRACE_CBID_SIZE);
  CHECK(value_of(ww::activity_kind::copy) == CUPTI_ACTIVITY_KIND_MEMCPY);
  CHECK(value_of(ww::activity_kind::fill) == CUPTI_ACTIVITY_KIND_MEMSET);
  CHECK(value_of(ww::activity_kind::driver_call) == CUPTI_ACTIVITY_KIND_DRIVER);
  CHECK(value_of(ww::activity_kind::runtime_call) == CUPTI_ACTIVITY_KIND_RUNTIME);
  CHECK(value_of(ww::activity_kind::kernel) == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  CHECK(value_of(ww::activity_kind::peer_copy) == CUPTI_ACTIVITY_KIND_MEMCPY2);
  CHECK(value_of(ww::activity_kind::graph) == CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
  CHECK(value_of(ww::activity_memory::pageable) == CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE);
  CHECK(value_of(ww::activity_memory::pinned) == CUPTI_ACTIVITY_MEMORY_KIND_PINNED);
  CHECK(value_of(ww::activity_memory::device) == CUPTI_ACTIVITY_MEMORY_KIND_DEVICE);
  CHECK(value_of(ww::activity_copy::to_device) == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD);
  CHECK(value_of(ww::activity_copy::to_host) == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH);
  CHECK(value_of(ww::activity_copy::on_device) == CUPTI_ACTIVITY_MEMCPY_KIND_DTOD);
  CHECK(value_of(ww::activity_copy::peer) == CUPTI_ACTIVITY_MEMCPY_KIND_PTOP);
  CHECK(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel == 307);
  CHECK(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz == 442);
  CHECK(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx == 652);
  CHECK(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz == 653);
  CHECK(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER == 5);
  CHECK(CUPTI_ERROR_INSUFFICIENT_PRIVILEGES == 35);
  CHECK(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED == 39);
  CHECK(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED == 1);
  CHECK(CUPTI_CB_DOMAIN_DRIVER_API == 1);
  CHECK(CUPTI_CB_DOMAIN_RUNTIME_API == 2);
}

}  // namespace
#endif
