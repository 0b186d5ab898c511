// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Prints the staging_options with which copies are fastest on this machine.
#include "measure_staging.hpp"

#include <cstdio>
#include <exception>

int main() {
  try {
    warpwright::pinned_pool pinned;
    warpwright::staging_options const fastest = measure_staging::measure(pinned);
    std::printf("staging_options{}.threads(%u).direct_bytes(%zu).bytes_per_helper(%zu)\n",
                fastest.threads(), fastest.direct_bytes(), fastest.bytes_per_helper());
    return 0;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "measure_staging: %s\n", error.what());
    return 1;
  }
}
