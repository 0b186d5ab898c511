// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The parts of the pinned pool alone: the table of blocks, a shard, and the source of its memory.
#include "support/catch.hpp"

#include <warpwright/memory/detail/pinned/block_table.hpp>
#include <warpwright/memory/detail/pinned/page_locked_source.hpp>
#include <warpwright/memory/detail/pinned/pinned_shard.hpp>

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace ww = warpwright;
namespace detail = ww::detail;
using ww::detail::block_table;
using ww::detail::pinned_block;
using ww::detail::pinned_list;
using ww::detail::pinned_shard;
using ww::detail::pinned_stream;

namespace {

constexpr std::uint64_t granule = 256;

std::size_t length(pinned_list const& list) {
  std::size_t blocks = 0;
  for (pinned_block* b = list.first; b != nullptr; b = b == list.last ? nullptr : b->next) ++blocks;
  return blocks;
}

/// Blocks that lie nowhere.
struct blocks_of {
  explicit blocks_of(std::size_t count) : all(new pinned_block[count]) {
    for (std::size_t i = 0; i < count; ++i) all[i].address = (i + 1) * 4096;
  }
  std::unique_ptr<pinned_block[]> all;
};

}  // namespace

TEST_CASE("block_table: each granule of a segment has its own entry") {
  block_table table;
  std::uint64_t const address = std::uint64_t{1} << 40U;
  for (std::uint64_t const granules : {std::uint64_t{1}, std::uint64_t{127}, std::uint64_t{5000}}) {
    table.add(address, granules * granule);
    std::set<pinned_block*> entries;
    for (std::uint64_t i = 0; i < granules; ++i) {
      pinned_block* const entry = table.find(address + i * granule);
      REQUIRE(entry != nullptr);
      CHECK(entry->requested_bytes() == 0);
      entry->give_to_caller(i + 1);  // each is memory that can be written
      entries.insert(entry);
    }
    CHECK(entries.size() == granules);
    CHECK(table.find(address + 1) == nullptr);
    CHECK(table.contains(address + granule - 1));
    CHECK(table.find(address - granule) == nullptr);
    CHECK(table.find(address + granules * granule) == nullptr);
    CHECK_FALSE(table.contains(address - 1));
    table.remove(address);
    CHECK_FALSE(table.contains(address));
    CHECK(table.find(address) == nullptr);
  }
}

TEST_CASE("block_table: many segments, and the one found last") {
  block_table table;
  ww::detail::atomic<block_table::region const*> recent;
  auto const address = [](std::uint64_t i) { return (i + 1) << 30U; };
  for (std::uint64_t i = 0; i < 50; ++i) table.add(address(i), 4096);
  for (std::uint64_t i = 0; i < 50; ++i) {
    pinned_block* const entry = table.find(address(i) + granule, recent);
    CHECK(entry == table.find(address(i) + granule));
    CHECK(entry == table.find(address(i) + granule, recent));
  }
  table.remove(address(49));
  CHECK(table.find(address(49) + granule, recent) == nullptr);
  // The entries of a segment that is gone serve another one, and are empty.
  table.find(address(7), recent)->give_to_caller(5);
  table.remove(address(7));
  table.add(address(60), 4096);
  CHECK(table.find(address(60), recent)->requested_bytes() == 0);
  CHECK(table.find(address(7), recent) == nullptr);
}

TEST_CASE("pinned_block: who owns it") {
  pinned_block block;
  CHECK_FALSE(block.take_from_caller(0));
  block.give_to_caller(1000);
  CHECK_FALSE(block.take_from_caller(999));
  CHECK_FALSE(block.take_from_caller(1024));
  CHECK(block.take_from_caller(1000));
  CHECK_FALSE(block.take_from_caller(1000));
  CHECK(block.requested_bytes() == 1000);
  CHECK(block.rounded_bytes() == 1024);
}

TEST_CASE("pinned_list: sizes, and one list behind another") {
  blocks_of b{6};
  pinned_list first;
  CHECK(first.empty());
  for (int i = 0; i < 3; ++i) first.push(b.all[i], 512);
  CHECK(first.each == 512);
  CHECK(length(first) == 3);
  pinned_list same;
  same.push(b.all[3], 512);
  first.append(same);
  CHECK(first.each == 512);
  CHECK(length(first) == 4);
  pinned_list other;
  other.push(b.all[4], 1024);
  other.push(b.all[5], 512);
  CHECK(other.each == 0);
  first.append(other);
  CHECK(first.each == 0);
  CHECK(first.bytes == 5 * 512 + 1024);
  CHECK(length(first) == 6);
  first.append(pinned_list{});
  pinned_list moved;
  moved.append(first.take_all());
  CHECK(first.empty());
  CHECK(length(moved) == 6);
}

TEST_CASE("pinned_shard: blocks by exact size, within a budget") {
  pinned_shard shard;
  blocks_of b{10};
  CHECK(shard.take(512, 256) == nullptr);
  CHECK(shard.put(b.all[0], 512, 2048));
  CHECK(shard.put(b.all[1], 512, 2048));
  CHECK(shard.put(b.all[2], 1024, 2048));
  CHECK_FALSE(shard.put(b.all[3], 256, 2048));  // no room
  CHECK(shard.cached_bytes == 2048);
  CHECK(shard.take(256, 256) == nullptr);
  CHECK(shard.take(512, std::uint64_t{1} << 40U) == nullptr);  // not so aligned
  CHECK(shard.take(512, 256) == &b.all[1]);
  CHECK(shard.take(512, 256) == &b.all[0]);
  CHECK(shard.take(512, 256) == nullptr);
  CHECK(shard.cached_bytes == 1024);
  pinned_list const evicted = shard.evict_others(512);
  CHECK(length(evicted) == 1);
  CHECK(shard.cached_bytes == 0);
  pinned_list same;
  for (int i = 0; i < 4; ++i) same.push(b.all[i], 512);
  CHECK_FALSE(shard.put(same, 2047));
  CHECK(shard.put(same, 2048));
  for (int i = 0; i < 4; ++i) CHECK(shard.take(512, 256) != nullptr);
  CHECK(shard.take(512, 256) == nullptr);
  pinned_list mixed;
  mixed.push(b.all[0], 512);
  mixed.push(b.all[1], 256);
  CHECK_FALSE(shard.put(mixed, 1 << 20U));
}

TEST_CASE("pinned_shard: more sizes than slots") {
  pinned_shard shard;
  blocks_of b{400};
  std::size_t stored = 0;
  for (std::size_t i = 0; i < 400; ++i) {
    if (shard.put(b.all[i], (i + 1) * granule, ~std::uint64_t{0})) ++stored;
  }
  CHECK(stored >= 40);
  CHECK(stored <= 64);
  std::size_t found = 0;
  for (std::size_t i = 0; i < 400; ++i) {
    if (shard.take((i + 1) * granule, 256) != nullptr) ++found;
  }
  CHECK(found == stored);
  CHECK(shard.cached_bytes == 0);
  CHECK(shard.evict_all().empty());
  // A size that no longer has blocks leaves its slot to others.
  for (std::size_t i = 0; i < 400; ++i) {
    CHECK(shard.put(b.all[i], (i + 500) * granule, ~std::uint64_t{0}));
    CHECK(shard.take((i + 500) * granule, 256) == &b.all[i]);
  }
}

TEST_CASE("pinned_shard: streams") {
  pinned_shard shard;
  blocks_of b{2};
  auto* const handle = reinterpret_cast<cudaStream_t>(std::uintptr_t{16});
  CHECK(shard.find(7) == pinned_shard::none);
  std::uint32_t const seven = shard.add(7, handle, 1);
  CHECK(shard.find(7) == seven);
  CHECK(shard.streams[seven].device == 1);
  std::uint32_t const eight = shard.add(8, handle, 0);
  CHECK(shard.find(8) == eight);
  CHECK(shard.find(7) == seven);
  // A retired stream with a batch keeps its entry, and is not found.
  shard.streams[seven].closed.push_back(pinned_stream::closed_batch{});
  shard.retire(seven);
  CHECK(shard.find(7) == pinned_shard::none);
  CHECK(shard.add(9, handle, 0) != seven);
  shard.streams[seven].closed.clear();
  shard.remove_if_done(seven);
  CHECK(shard.add(10, handle, 0) == seven);
  // Of many streams the idle ones leave their entries, others do not.
  for (std::uint64_t id = 100; id < 2100; ++id) {
    std::uint32_t const index = shard.add(id, handle, 0);
    if (id % 2 == 0) shard.streams[index].open.push(b.all[0], 256);
  }
  CHECK(shard.streams.size() > 1000);
  CHECK(shard.streams.size() < 1600);
  for (std::uint64_t id = 100; id < 2100; id += 2) CHECK(shard.find(id) != pinned_shard::none);
  for (std::uint64_t id = 101; id < 2100; id += 2) {
    std::uint32_t const index = shard.find(id);
    if (index != pinned_shard::none) CHECK(shard.streams[index].id == id);
  }
}

namespace {

/// The system's files, as a test gives them.
struct given_files {
  std::map<std::string, std::string> texts;
  detail::file_operations operations = detail::stdio_operations;

  given_files() {
    operations.context = this;
    operations.open = [](void* self, char const* path, char const*) -> std::FILE* {
      auto& all = static_cast<given_files*>(self)->texts;
      auto const found = all.find(path);
      if (found == all.end()) return nullptr;
      return fmemopen(&found->second[0], found->second.size(), "r");
    };
  }
  std::uint64_t available() const { return detail::available_memory(operations); }
};

constexpr std::uint64_t unknown = ~std::uint64_t{0};

}  // namespace

TEST_CASE("available_memory: what the system has, and without its files no limit") {
  given_files files;
  CHECK(files.available() == unknown);
  files.texts["/proc/meminfo"] = "MemTotal: 900 kB\nMemFree: 100 kB\n";
  CHECK(files.available() == unknown);
  files.texts["/proc/meminfo"] += "MemAvailable:     500 kB\nBuffers: 1 kB\n";
  CHECK(files.available() == 500 * 1024);
  files.texts["/proc/self/cgroup"] = "0::/a/b\n";
  CHECK(files.available() == 500 * 1024);
}

TEST_CASE("available_memory: the least of the control groups above the process") {
  given_files files;
  files.texts["/proc/self/cgroup"] = "0::/a/b\n";
  files.texts["/sys/fs/cgroup/a/b/memory.max"] = "max\n";
  files.texts["/sys/fs/cgroup/a/b/memory.current"] = "100\n";
  CHECK(files.available() == unknown);
  files.texts["/sys/fs/cgroup/a/memory.max"] = "5000\n";
  files.texts["/sys/fs/cgroup/a/memory.current"] = "3000\n";
  CHECK(files.available() == 2000);
  // Pages of files are taken back when memory is short.
  files.texts["/sys/fs/cgroup/a/memory.stat"] =
      "anon 1500\nfile 1400\nworkingset_inactive_file 7\ninactive_file 1000\nactive_file 400\n";
  CHECK(files.available() == 3400);
  files.texts["/sys/fs/cgroup/a/b/memory.max"] = "3200\n";
  CHECK(files.available() == 3100);
  files.texts["/sys/fs/cgroup/memory.max"] = "50\n";  // a container's own group
  files.texts["/sys/fs/cgroup/memory.current"] = "60\n";
  CHECK(files.available() == 0);
  files.texts["/proc/self/cgroup"] = "0::/\n";
  CHECK(files.available() == 0);
  files.texts["/sys/fs/cgroup/memory.current"] = "20\n";
  CHECK(files.available() == 30);
  files.texts["/sys/fs/cgroup/memory.stat"] = "inactive_file 25\n";  // read later
  CHECK(files.available() == 50);
}

TEST_CASE("available_memory: control groups of the first version") {
  given_files files;
  files.texts["/proc/self/cgroup"] = "5:cpuset:/x\n4:cpu,memory:/c\n1:name=systemd:/y\n0::/z\n";
  files.texts["/sys/fs/cgroup/memory/x/memory.limit_in_bytes"] = "1\n";  // of another controller
  files.texts["/sys/fs/cgroup/memory/memory.limit_in_bytes"] = "9223372036854771712\n";
  files.texts["/sys/fs/cgroup/memory/c/memory.limit_in_bytes"] = "8000\n";
  CHECK(files.available() == 8000);
  files.texts["/sys/fs/cgroup/memory/c/memory.usage_in_bytes"] = "6000\n";
  files.texts["/sys/fs/cgroup/memory/c/memory.stat"] =
      "inactive_file 5\nactive_file 5\ntotal_inactive_file 1000\ntotal_active_file 500\n";
  CHECK(files.available() == 3500);
}

TEST_CASE("page_locked_source: memory that a control group does not leave is not faulted in") {
  given_files files;
  files.texts["/proc/self/cgroup"] = "0::/\n";
  files.texts["/sys/fs/cgroup/memory.max"] = "1048576\n";
  detail::page_locked_source const source{detail::pinned_settings{}, files.operations};
  for (bool const fits : {true, false}) {
    detail::host_segment const segment =
        source.acquire(fits ? 1048576 : 1048576 + 256, ww::source_location::current());
    CHECK(segment.from ==
          (fits ? detail::host_segment::kind::registered : detail::host_segment::kind::cuda));
    CHECK(detail::page_locked_source::release(segment) == cudaSuccess);
  }
}
