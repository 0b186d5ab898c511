// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/device_memory.hpp"

#include <warpwright/core/launch.hpp>
#include <warpwright/graph/capture.hpp>
#include <warpwright/graph/conditional.hpp>
#include <warpwright/graph/graph_audit.hpp>

#include <string>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ww = warpwright;
using test_support::device_array;

namespace {

struct add {
  unsigned* out;
  unsigned amount;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { out[i] += amount; }
};

void nothing(void*) {}

struct pinned {
  pinned() { ww::check(cudaMallocHost(&data, 64), "cudaMallocHost"); }
  ~pinned() { ww::detail::discard(cudaFreeHost(data)); }
  void* data = nullptr;
};

}  // namespace

TEST_CASE("a chain of kernels is a straight line without findings") {
  ww::stream s;
  device_array<unsigned> const x{std::vector<unsigned>(64, 0)};
  ww::graph const g = ww::capture(s, [&](ww::stream_ref c) {
    for (unsigned i = 0; i < 20; ++i) ww::for_each_index(c, 64, add{x.data(), i});
    ww::check(cudaMemsetAsync(x.data(), 0, 64, c), "cudaMemsetAsync");
  });
  ww::graph_audit const a = ww::audit(g);
  CHECK(a.counts.kernels == 20);
  CHECK(a.counts.fills == 1);
  CHECK(a.counts.total() == 21);
  CHECK(a.edges == 20);
  CHECK(a.longest_path == 21);
  CHECK(a.straight_line);
  CHECK(!a.empty());
  CHECK(a.clean());
  CHECK_THAT(a.to_text(),
             contains("graph of 21 nodes: 20 kernels, 1 fills; 20 dependencies, longest "
                      "path 21, a straight line\n"));
  CHECK(a.to_text().find("- ") == std::string::npos);
}

TEST_CASE("branches are seen, and the longest of them") {
  ww::stream s;
  device_array<unsigned> const x{std::vector<unsigned>(64, 0)};
  ww::graph const g = ww::capture(s, [&](ww::capture_scope& scope) {
    ww::for_each_index(scope, 8, add{x.data(), 1});
    scope.fork(3, [&](ww::stream_ref branch, unsigned i) {
      for (unsigned k = 0; k <= i; ++k) ww::for_each_index(branch, 8, add{x.data() + 8 * i, 1});
    });
    ww::for_each_index(scope, 8, add{x.data(), 1});
  });
  ww::graph_audit const a = ww::audit(g);
  CHECK(a.counts.kernels == 8);
  CHECK(!a.straight_line);
  CHECK(a.longest_path == 5);
  CHECK(a.clean());
  CHECK_THAT(a.to_text(), contains("branches that can run concurrently"));
}

TEST_CASE("an empty graph") {
  ww::stream s;
  ww::graph_audit const a = ww::audit(ww::capture(s, [](ww::stream_ref) {}));
  CHECK(a.empty());
  CHECK(!a.clean());
  CHECK(a.longest_path == 0);
  CHECK_THAT(a.to_text(), contains("nothing was captured: the work went to another stream"));
}

TEST_CASE("copies of pageable memory are found, others are not") {
  ww::stream s;
  device_array<unsigned> const x{std::vector<unsigned>(64, 0)};
  pinned const locked;
  std::vector<unsigned> const pageable(64);
  ww::graph const g = ww::capture(s, [&](ww::stream_ref c) {
    auto const copy = [&](void* to, void const* from, cudaMemcpyKind kind) {
      ww::check(cudaMemcpyAsync(to, from, 64, kind, c), "cudaMemcpyAsync");
    };
    copy(x.data(), pageable.data(), cudaMemcpyHostToDevice);
    copy(x.data(), locked.data, cudaMemcpyHostToDevice);
    copy(x.data() + 16, x.data(), cudaMemcpyDeviceToDevice);
    copy(locked.data, x.data(), cudaMemcpyDeviceToHost);
  });
  ww::graph_audit const a = ww::audit(g);
  CHECK(a.counts.copies == 4);
  CHECK(a.pageable_copies == 1);
  CHECK(!a.clean());
  CHECK_THAT(a.to_text(), contains("- 1 copies from or to pageable memory"));
}

TEST_CASE("memory nodes and host functions are findings") {
  ww::stream s;
  ww::graph const g = ww::capture(s, [&](ww::stream_ref c) {
    void* freed = nullptr;
    void* kept = nullptr;
    ww::check(cudaMallocAsync(&freed, 1000, c), "cudaMallocAsync");
    ww::check(cudaMallocAsync(&kept, 24, c), "cudaMallocAsync");
    ww::check(cudaFreeAsync(freed, c), "cudaFreeAsync");
    ww::check(cudaLaunchHostFunc(c, &nothing, nullptr), "cudaLaunchHostFunc");
  });
  ww::graph_audit const a = ww::audit(g);
  CHECK(a.counts.allocations == 2);
  CHECK(a.allocated_bytes >= 1024);
  CHECK(a.unfreed_allocations == 1);
  CHECK(a.counts.host_calls == 1);
  CHECK(!a.clean());
  CHECK_THAT(a.to_text(), contains("- 2 memory allocation nodes"));
  CHECK_THAT(a.to_text(), contains("- 1 of them are not freed in the graph"));
  CHECK_THAT(a.to_text(), contains("- 1 host functions"));
}

TEST_CASE("the nodes of child graphs count, and their length") {
  ww::stream s;
  device_array<unsigned> const x{std::vector<unsigned>(64, 0)};
  ww::graph const inner = ww::capture(s, [&](ww::stream_ref c) {
    for (int i = 0; i < 4; ++i) ww::for_each_index(c, 8, add{x.data(), 1});
  });
  cudaGraph_t handle = nullptr;
  ww::check(cudaGraphCreate(&handle, 0), "cudaGraphCreate");
  ww::graph const g{handle};
  cudaGraphNode_t first = nullptr, child = nullptr, last = nullptr, beside = nullptr;
  ww::check(cudaGraphAddEmptyNode(&first, handle, nullptr, 0), "cudaGraphAddEmptyNode");
  ww::check(cudaGraphAddChildGraphNode(&child, handle, &first, 1, inner.get()),
            "cudaGraphAddChildGraphNode");
  ww::check(cudaGraphAddEmptyNode(&beside, handle, &first, 1), "cudaGraphAddEmptyNode");
  cudaGraphNode_t const both[] = {child, beside};
  ww::check(cudaGraphAddEmptyNode(&last, handle, both, 2), "cudaGraphAddEmptyNode");
  ww::graph_audit const a = ww::audit(g);
  CHECK(a.counts.child_graphs == 1);
  CHECK(a.counts.kernels == 4);
  CHECK(a.longest_path == 6);
  CHECK(!a.straight_line);
}

TEST_CASE("conditional nodes are counted") {
  ww::stream s;
  device_array<unsigned> const x{std::vector<unsigned>(4, 0)};
  ww::graph const g = ww::capture(s, [&](ww::stream_ref c) {
    ww::repeat_while(c, x.data(), {x.data() + 1, 3}, [&](ww::stream_ref inner) {
      ww::for_each_index(inner, 1, add{x.data(), 1});
    });
  });
  ww::graph_audit const a = ww::audit(g);
  CHECK(a.conditionals == 1);
  CHECK(a.counts.total() == 2);
  CHECK_THAT(a.to_text(), contains("1 conditional nodes"));
}

TEST_CASE("a large graph of many branches") {
  ww::stream s;
  device_array<unsigned> const x{std::vector<unsigned>(64, 0)};
  ww::graph const g = ww::capture(s, [&](ww::capture_scope& scope) {
    for (int i = 0; i < 50; ++i) {
      scope.fork(4, [&](ww::stream_ref branch, unsigned b) {
        ww::for_each_index(branch, 8, add{x.data() + 8 * b, 1});
      });
    }
  });
  ww::graph_audit const a = ww::audit(g);
  CHECK(a.counts.kernels == 200);
  CHECK(a.longest_path == 50);
  CHECK(a.edges >= 49 * 16);  // captures also make dependencies that follow from others
}

#if WARPWRIGHT_HOST_RUNTIME

TEST_CASE("queries that fail are reported") {
  ww::stream s;
  device_array<unsigned> const x{std::vector<unsigned>(64, 0)};
  ww::graph const g = ww::capture(s, [&](ww::stream_ref c) {
    ww::for_each_index(c, 8, add{x.data(), 1});
    ww::for_each_index(c, 8, add{x.data(), 1});
  });
  for (char const* const call :
       {"cudaGraphGetNodes", "cudaGraphNodeGetType", "cudaGraphGetEdges"}) {
    INFO(call);
    ww::testing::scoped_fault_plan const plan{
        ww::testing::fault_plan{}.fail(call, 1, cudaErrorInvalidValue)};
    CHECK_THROWS_AS(ww::audit(g), ww::cuda_error);
    CHECK(cudaPeekAtLastError() == cudaSuccess);
  }
}

#endif  // WARPWRIGHT_HOST_RUNTIME
