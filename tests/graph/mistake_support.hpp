// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What the tests of mistakes in captured bodies share.
#pragma once

#include "support/catch.hpp"
#include "support/device_memory.hpp"

#include <warpwright/core/launch.hpp>
#include <warpwright/graph/graph_replay.hpp>
#include <warpwright/memory/pool.hpp>

#include <string>
#include <vector>

namespace test_support {

struct add_to {
  int* out;
  int amount;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { out[i] += amount; }
};

/// A stream, and a pool and an array of its device, for bodies that make a mistake.
struct bench_of_mistakes {
  ww::stream s;
  ww::memory_pool pool{ww::current_device()};
  device_array<int> x{std::vector<int>(64, 0)};

  /// Captures a body that must fail, and returns the report.
  template <class Body>
  ww::capture_report report_of(Body&& body, ww::capture_mode mode = ww::capture_mode::thread) {
    try {
      ww::graph const captured = ww::capture(s, body, mode);
      FAIL("the capture succeeded");
    } catch (ww::capture_error const& error) {
      CHECK(error.code() == error.report().code);
      CHECK(std::string{error.what()}.find(error.report().remedy()) != std::string::npos);
      CHECK(error.report().to_text().find(error.report().cause()) != std::string::npos);
      return error.report();
    }
    return {};
  }

  /// Checks that the stream, the pool and the next capture work.
  void check_usable() {
    CHECK_FALSE(s.is_capturing());
    CHECK(cudaPeekAtLastError() == cudaSuccess);
    int const before = x.fetch(s)[63];
    auto const body = [&](ww::capture_scope& scope) {
      int* const p = static_cast<int*>(pool.allocate(scope, 256));
      ww::check(cudaMemsetAsync(p, 0, 256, scope.stream()), "cudaMemsetAsync");
      scope.fork(2, [&](ww::stream_ref branch, unsigned i) {
        ww::for_each_index(branch, 32, add_to{x.data() + i * 32, 1});
      });
      pool.deallocate(scope, p, 256);
    };
    ww::graph_exec exec{ww::capture(s, body)};
    exec.launch(s);
    CHECK(x.fetch(s)[63] == before + 1);
    void* const eager = pool.allocate(s, 1024);
    pool.deallocate(s, eager, 1024);
    s.synchronize();
    CHECK(ww::detail::captures_under_way.load(ww::detail::memory_order::relaxed) == 0);
  }
};

/// Whether the report names a call, by a part of its name that the runtime and the driver spell
/// alike; toolkits older than 13.0, and drivers that do not log it, cannot tell.
inline bool names(ww::capture_report const& report, char const* part) {
  bool const named = report.broken_by.find(part) != std::string::npos &&
                     report.cause().find(part) != std::string::npos;
#if WARPWRIGHT_HOST_RUNTIME
  return named;
#else
  return named || report.broken_by.empty();
#endif
}

inline bool contains_text(std::string const& text, char const* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace test_support
