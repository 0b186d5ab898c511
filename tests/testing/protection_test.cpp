// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Illegal accesses to device memory end the program at the access.
#include <warpwright/testing/host_runtime.hpp>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "testing/child_process.hpp"

namespace {

using test_support::outcome;
using test_support::run_child;

// By SIGSEGV, or by a sanitizer that reports the same access.
void dies_of_its_access(std::string const& situation) {
  outcome const end = run_child(situation);
  INFO(situation << ": " << end.text());
  CHECK_FALSE(end.timed_out);
  bool const reported = end.exit_code > 0 && end.error.find("Sanitizer") != std::string::npos &&
                        (end.error.find("SEGV") != std::string::npos ||
                         end.error.find("use-after-poison") != std::string::npos);
  CHECK((end.signal == SIGSEGV || reported));
}

}  // namespace

#if WARPWRIGHT_NEEDS_PROTECTION_KEYS
TEST_CASE("an access to device memory by host code ends the program") {
  if (!warpwright::testing::protection_keys()) {
    std::puts("SKIPPED: this CPU or kernel has no memory protection keys");
    std::exit(77);
  }
  dies_of_its_access("read_device_memory");
  dies_of_its_access("write_device_memory");
  dies_of_its_access("read_pool_memory");
  dies_of_its_access("touch_in_host_function");
  dies_of_its_access("touch_in_another_thread");
}
#else

TEST_CASE("an access after a free ends the program") {
  dies_of_its_access("use_after_free_in_kernel");
  dies_of_its_access("use_after_free_on_host");
}

TEST_CASE("a kernel's access beyond its page ends the program") {
  dies_of_its_access("beyond_the_page");
}

TEST_CASE("legal accesses do not end the program") {
  outcome const end = run_child("permitted");
  INFO(end.text());
  CHECK(end.signal == 0);
  CHECK(end.exit_code == 0);
}
#endif
