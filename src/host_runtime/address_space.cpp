// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Device memory: each device reserves one inaccessible address range, in which allocations are
// mapped. Freed addresses are reused last, so that an access through a stale pointer faults.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "runtime.hpp"

#if WARPWRIGHT_HOST_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace warpwright::host {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t small_fill = std::size_t{1} << 20;
constexpr std::size_t pattern_bytes = std::size_t{32} << 20;
constexpr std::size_t guarded_allocations = 12000;  // Linux allows 65,530 mappings per process

int protection_key = -1;  // of all device memory
int pattern_file = -2;    // -2: not created yet, -1: unavailable
std::size_t live_mappings = 0;

void* anonymous(void* at, std::size_t bytes, int protection) {
  return mmap(at, bytes, protection,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at != nullptr ? MAP_FIXED : 0), -1, 0);
}

// A file filled with the pattern, mapped copy-on-write: new memory reads as filled, but only the
// pages that a program writes take physical memory.
int pattern() {
  if (pattern_file != -2) return pattern_file;
  pattern_file = above_standard(memfd_create("warpwright-fill-pattern", MFD_CLOEXEC));
  if (pattern_file < 0) return pattern_file = -1;
  void* view = MAP_FAILED;
  if (ftruncate(pattern_file, static_cast<off_t>(pattern_bytes)) == 0) {
    view = mmap(nullptr, pattern_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, pattern_file, 0);
  }
  if (view == MAP_FAILED) {
    close(pattern_file);
    return pattern_file = -1;
  }
  std::memset(view, fill_byte, pattern_bytes);
  munmap(view, pattern_bytes);
  return pattern_file;
}

bool map_filled(void* at, std::size_t bytes) {
  if (bytes > small_fill && pattern() >= 0) {
    for (std::size_t offset = 0; offset < bytes; offset += pattern_bytes) {
      if (mmap(static_cast<char*>(at) + offset, (std::min)(pattern_bytes, bytes - offset),
               PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, pattern_file,
               0) == MAP_FAILED) {
        return false;
      }
    }
    return true;
  }
  if (anonymous(at, bytes, PROT_READ | PROT_WRITE) == MAP_FAILED) return false;
  std::memset(at, fill_byte, bytes);
  return true;
}

#if defined(__x86_64__)
unsigned read_rights() noexcept {
  unsigned rights = 0, high = 0;
  __asm__ volatile("rdpkru" : "=a"(rights), "=d"(high) : "c"(0));
  return rights;
}
void write_rights(unsigned rights) noexcept {
  __asm__ volatile("wrpkru" : : "a"(rights), "c"(0), "d"(0) : "memory");
}
unsigned key_bits() noexcept { return 3U << (2 * static_cast<unsigned>(protection_key)); }
#endif

}  // namespace

bool keys_in_use() noexcept { return protection_key > 0; }

device_access::device_access(bool allowed) noexcept : before_(0) {
#if defined(__x86_64__)
  if (protection_key > 0) {
    before_ = read_rights();
    unsigned const rights =
        allowed ? before_ & ~key_bits() : before_ | (1U << (2 * protection_key));
    if (rights != before_) write_rights(rights);
  }
#else
  (void)allowed;
#endif
}

device_access::~device_access() {
#if defined(__x86_64__)
  if (protection_key > 0 && read_rights() != before_) write_rights(before_);
#endif
}

std::size_t device_pages(std::size_t bytes) noexcept { return (bytes + page - 1) / page * page; }

void make_address_range(device_state& device) {
#if defined(__x86_64__)
  if (protection_key == -1) {
    protection_key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
    if (protection_key <= 0) protection_key = 0;
  }
#endif
  // Several times the device's memory, so that addresses are reused late; less if the process is
  // not allowed that much.
  std::size_t bytes = std::size_t{64} << 30;
  while (bytes < 4 * device.memory_bytes && bytes < (std::size_t{512} << 30)) bytes *= 2;
  void* at = MAP_FAILED;
  for (; bytes >= device.memory_bytes + device.memory_bytes / 4; bytes /= 2) {
    at = anonymous(nullptr, bytes, PROT_NONE);
    if (at != MAP_FAILED) break;
  }
  if (at == MAP_FAILED) bytes = 0;
  device.range = {};
  device.range.base = bytes == 0 ? 0 : reinterpret_cast<std::uintptr_t>(at);
  device.range.bytes = bytes;
}

void drop_address_range(device_state& device) {
  if (device.range.bytes > 0) {
    set_accessible_bytes(device.range.base, device.range.unused_offset, device.range.unused_offset);
    munmap(reinterpret_cast<void*>(device.range.base), device.range.bytes);
  }
  device.range = {};
}

std::uintptr_t map_device_pages(device_state& device, std::size_t bytes,
                                std::size_t& mapped_bytes) {
  address_range& range = device.range;
  std::size_t const size = device_pages(bytes);
  std::size_t const padded = size + page;  // with a guard page
  std::uintptr_t base = 0;
  if (padded <= range.bytes - range.unused_offset) {
    base = range.base + range.unused_offset;
    range.unused_offset += padded;
  } else {
    for (auto it = range.free_ranges.begin(); it != range.free_ranges.end(); ++it) {
      if (it->second < padded) continue;
      base = it->first;
      std::size_t const rest = it->second - padded;
      range.free_ranges.erase(it);
      if (rest > 0) range.free_ranges.emplace(base + padded, rest);
      break;
    }
  }
  if (base == 0) return 0;
  mapped_bytes = size;
  ++live_mappings;
  // The guard page is inaccessible, unless the process is near Linux's limit of mappings: then it
  // is mapped as well, which merges neighbouring mappings.
  std::size_t const accessible = live_mappings > guarded_allocations ? padded : size;
  void* const at = reinterpret_cast<void*>(base);
  bool mapped = map_filled(at, accessible);
#if defined(__x86_64__)
  if (mapped && protection_key > 0) {
    mapped = pkey_mprotect(at, accessible, PROT_READ | PROT_WRITE, protection_key) == 0;
  }
#endif
  if (!mapped) {
    unmap_device_pages(device, base, size);
    return 0;
  }
  set_accessible_bytes(base, bytes, size);
  return base;
}

void unmap_device_pages(device_state& device, std::uintptr_t base, std::size_t mapped_bytes) {
  std::size_t bytes = mapped_bytes + page;
  anonymous(reinterpret_cast<void*>(base), bytes, PROT_NONE);
  set_accessible_bytes(base, 0, mapped_bytes);
  --live_mappings;
  auto& free_ranges = device.range.free_ranges;
  auto next = free_ranges.lower_bound(base);
  if (next != free_ranges.end() && next->first == base + bytes) {
    bytes += next->second;
    next = free_ranges.erase(next);
  }
  if (next != free_ranges.begin()) {
    auto const before = std::prev(next);
    if (before->first + before->second == base) {
      before->second += bytes;
      return;
    }
  }
  free_ranges.emplace(base, bytes);
}

bool protect_device_pages(std::uintptr_t base, std::size_t bytes, int protection) noexcept {
  void* const at = reinterpret_cast<void*>(base);
#if defined(__x86_64__)
  if (protection_key > 0) return pkey_mprotect(at, bytes, protection, protection_key) == 0;
#endif
  return mprotect(at, bytes, protection) == 0;
}

void set_accessible_bytes(std::uintptr_t base, std::size_t bytes,
                          std::size_t mapped_bytes) noexcept {
#if WARPWRIGHT_HOST_ASAN
  char* const at = reinterpret_cast<char*>(base);
  __asan_unpoison_memory_region(at, bytes);
  __asan_poison_memory_region(at + bytes, mapped_bytes - bytes);
#else
  (void)base;
  (void)bytes;
  (void)mapped_bytes;
#endif
}

}  // namespace warpwright::host
