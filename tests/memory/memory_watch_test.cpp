// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/core/stream.hpp>
#include <warpwright/memory/memory_watch.hpp>
#include <warpwright/memory/pool.hpp>

#include <support/catch.hpp>

#include <cstdlib>
#include <string>

namespace ww = warpwright;

namespace {

void keep(void* user, char const* report) noexcept { *static_cast<std::string*>(user) += report; }

}  // namespace

TEST_CASE("memory_watch: a growth above the limit is reported with its call sites") {
  ww::memory_pool pool{ww::device_id{0}};
  ww::tracking_adaptor<ww::memory_pool> memory{pool};
  ww::stream const stream;
  std::string report;
  void* blocks[4] = {};
  auto const allocate = [&] { return memory.allocate(stream, 1000); };  // one call site
  blocks[0] = allocate();
  {
    ww::memory_watch const watch{memory, 3000, "quiet", &keep, &report};
    blocks[1] = allocate();
    CHECK(watch.grown_bytes() == 1000);
    memory.deallocate(stream, memory.allocate(stream, 1 << 20), 1 << 20);
  }
  CHECK(report.empty());
  {
    ww::memory_watch const watch{memory, 0, "shrinks", &keep, &report};
    memory.deallocate(stream, blocks[1], 1000);
    CHECK(watch.grown_bytes() == 0);
  }
  CHECK(report.empty());
  int line = 0;
  {
    ww::memory_watch const watch{memory, 3000, "step", &keep, &report};
    blocks[1] = allocate();
    blocks[2] = allocate();
    line = __LINE__ + 1;
    blocks[3] = memory.allocate(stream, 5000);
  }
  CHECK_THAT(report,
             contains("memory_watch: 'step': live memory grew by 6.836 KiB, above 2.930 KiB"));
  CHECK_THAT(report, contains("  +5000 bytes (1 blocks, before 0), allocated at " __FILE__ ":" +
                              std::to_string(line) + "\n"));
  CHECK_THAT(report, contains("  +2000 bytes (3 blocks, before 1), allocated at"));
  for (int i = 0; i < 4; ++i) memory.deallocate(stream, blocks[i], i == 3 ? 5000 : 1000);
}
