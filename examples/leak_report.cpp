// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Which code holds device memory? Adaptors over a pool count it per tag, and name the lines that
// have not freed theirs. This program leaks one block on purpose.
#include <warpwright/core/device.hpp>
#include <warpwright/memory.hpp>
#include <warpwright/memory/adaptors.hpp>

#include <cstdio>
#include <exception>
#include <string>

namespace ww = warpwright;

int main() {
  try {
    ww::stream stream;
    ww::memory_pool pool{ww::current_device()};
    ww::limit_adaptor part{pool, std::size_t{64} << 20U};  // a limit of 64 MiB for this part
    ww::statistics_adaptor counted{part};
    auto weights = counted.tagged("weights");
    ww::tracking_adaptor tracked{weights};

    void* forgotten = nullptr;
    int line_of_leak = 0;
    for (int step = 0; step < 10; ++step) {
      void* const scratch = tracked.allocate(stream, 100000);
      if (step == 3) {
        forgotten = tracked.allocate(stream, 4096);
        line_of_leak = __LINE__ - 1;
      }
      tracked.deallocate(stream, scratch, 100000);
    }

    std::string const report = tracked.to_text();
    std::printf("%s\n%s", report.c_str(), counted.to_text().c_str());

    bool const right =
        report.find("4096 bytes are outstanding (blocks: 1, call sites: 1)") != report.npos &&
        report.find("leak_report.cpp:" + std::to_string(line_of_leak) + "\n") != report.npos &&
        counted.statistics("weights").live_bytes == 4096 &&
        counted.statistics("weights").live_peak_bytes == 104096 && part.live_bytes() == 4096;
    tracked.deallocate(stream, forgotten, 4096);
    return right && tracked.outstanding_blocks() == 0 && pool.statistics().live_bytes == 0 ? 0 : 1;
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
