// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Where device memory lives: one inaccessible address range a device, out of which allocations are
// mapped. Fresh addresses are handed out first and freed ones last, so that a stale pointer faults.
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
constexpr int fresh_byte = 0xff;  // NaN as float, half and bfloat16, -1 as an integer
constexpr std::size_t small_fill = std::size_t{1} << 20;
constexpr std::size_t pattern_bytes = std::size_t{32} << 20;
constexpr std::size_t guarded_allocations = 12000;  // the kernel allows 65,530 mappings a process

int device_key = -1;    // memory protection key of all device memory
int pattern_file = -2;  // -2: not tried yet, -1: none
std::size_t live_mappings = 0;

void* anonymous(void* at, std::size_t bytes, int protection) {
  return mmap(at, bytes, protection,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at != nullptr ? MAP_FIXED : 0), -1, 0);
}

// A file full of the pattern, mapped privately as often as needed: memory looks filled, but only
// the pages that a program writes cost memory.
int pattern() {
  if (pattern_file != -2) return pattern_file;
  pattern_file = memfd_create("warpwright-fresh-memory", MFD_CLOEXEC);
  if (pattern_file < 0) return pattern_file = -1;
  void* view = MAP_FAILED;
  if (ftruncate(pattern_file, static_cast<off_t>(pattern_bytes)) == 0) {
    view = mmap(nullptr, pattern_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, pattern_file, 0);
  }
  if (view == MAP_FAILED) {
    close(pattern_file);
    return pattern_file = -1;
  }
  std::memset(view, fresh_byte, pattern_bytes);
  munmap(view, pattern_bytes);
  return pattern_file;
}

bool map_fresh(void* at, std::size_t bytes) {
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
  std::memset(at, fresh_byte, bytes);
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
unsigned key_bits() noexcept { return 3U << (2 * static_cast<unsigned>(device_key)); }
#endif

}  // namespace

bool keys_in_use() noexcept { return device_key > 0; }

device_access::device_access(bool allowed) noexcept : before_(0) {
#if defined(__x86_64__)
  if (device_key > 0) {
    before_ = read_rights();
    unsigned const wanted = allowed ? before_ & ~key_bits() : before_ | (1U << (2 * device_key));
    if (wanted != before_) write_rights(wanted);
  }
#else
  (void)allowed;
#endif
}

device_access::~device_access() {
#if defined(__x86_64__)
  if (device_key > 0 && read_rights() != before_) write_rights(before_);
#endif
}

std::size_t device_pages(std::size_t bytes) noexcept { return (bytes + page - 1) / page * page; }

void make_address_range(device_state& device) {
#if defined(__x86_64__)
  if (device_key == -1) {
    device_key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
    if (device_key <= 0) device_key = 0;
  }
#endif
  // Several times the memory, so that addresses are reused late; less where the process is limited.
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
    fence(device.range.base, device.range.fresh, device.range.fresh);
    munmap(reinterpret_cast<void*>(device.range.base), device.range.bytes);
  }
  device.range = {};
}

std::uintptr_t map_device_pages(device_state& device, std::size_t bytes,
                                std::size_t& mapped_bytes) {
  address_range& range = device.range;
  std::size_t const size = device_pages(bytes);
  std::size_t const taken = size + page;  // a page between neighbours
  std::uintptr_t base = 0;
  if (taken <= range.bytes - range.fresh) {
    base = range.base + range.fresh;
    range.fresh += taken;
  } else {
    for (auto it = range.holes.begin(); it != range.holes.end(); ++it) {
      if (it->second < taken) continue;
      base = it->first;
      std::size_t const rest = it->second - taken;
      range.holes.erase(it);
      if (rest > 0) range.holes.emplace(base + taken, rest);
      break;
    }
  }
  if (base == 0) return 0;
  mapped_bytes = size;
  ++live_mappings;
  // The page between stays inaccessible until the kernel's limit of mappings comes near: then it is
  // mapped as well, and neighbours become one mapping.
  std::size_t const accessible = live_mappings > guarded_allocations ? taken : size;
  void* const at = reinterpret_cast<void*>(base);
  bool mapped = map_fresh(at, accessible);
#if defined(__x86_64__)
  if (mapped && device_key > 0) {
    mapped = pkey_mprotect(at, accessible, PROT_READ | PROT_WRITE, device_key) == 0;
  }
#endif
  if (!mapped) {
    unmap_device_pages(device, base, size);
    return 0;
  }
  fence(base, bytes, size);
  return base;
}

void unmap_device_pages(device_state& device, std::uintptr_t base, std::size_t mapped_bytes) {
  std::size_t bytes = mapped_bytes + page;
  anonymous(reinterpret_cast<void*>(base), bytes, PROT_NONE);
  fence(base, 0, mapped_bytes);
  --live_mappings;
  auto& holes = device.range.holes;
  auto next = holes.lower_bound(base);
  if (next != holes.end() && next->first == base + bytes) {
    bytes += next->second;
    next = holes.erase(next);
  }
  if (next != holes.begin()) {
    auto const before = std::prev(next);
    if (before->first + before->second == base) {
      before->second += bytes;
      return;
    }
  }
  holes.emplace(base, bytes);
}

bool protect_device_pages(std::uintptr_t base, std::size_t bytes, int protection) noexcept {
  void* const at = reinterpret_cast<void*>(base);
#if defined(__x86_64__)
  if (device_key > 0) return pkey_mprotect(at, bytes, protection, device_key) == 0;
#endif
  return mprotect(at, bytes, protection) == 0;
}

void fence(std::uintptr_t base, std::size_t bytes, std::size_t mapped_bytes) noexcept {
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
