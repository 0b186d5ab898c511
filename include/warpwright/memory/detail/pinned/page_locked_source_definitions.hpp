// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/thread/thread.hpp>
#include <warpwright/memory/detail/pinned/page_locked_source.hpp>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

WARPWRIGHT_BEGIN

namespace detail {

constexpr std::uint64_t huge_page_bytes = std::uint64_t{2} << 20U;

/// A part of the pages of a segment that one thread faults in.
struct fault_in_part {
  char* first = nullptr;
  std::uint64_t bytes = 0;
  bool failed = false;
  thread runner;

  void run() noexcept {
    constexpr int populate_write = 23;  // MADV_POPULATE_WRITE, of Linux 5.14
    if (bytes == 0 || madvise(first, bytes, populate_write) == 0) return;
    // Another error: there is not enough memory. To write to the pages would end the process.
    failed = errno != EINVAL;
    for (std::uint64_t i = 0; i < bytes && !failed; i += 4096) {
      static_cast<char volatile*>(first)[i] = 0;
    }
  }
};

WARPWRIGHT_COLD WARPWRIGHT_INLINE void page_locked_source::check_options(
    source_location where) const {
  if (options_.mapped && options_.pageable_fallback) {
    throw_invalid_argument(
        "pinned_pool: mapped() with pageable_fallback(): kernels cannot use memory that is not "
        "page-locked; leave one of them out",
        where);
  }
  if (options_.write_combined && options_.numa_node != pinned_settings::any_numa_node) {
    throw_invalid_argument(
        text{"pinned_pool: write_combined() with numa_node("} + options_.numa_node +
            "): cudaHostAlloc, from which write-combined memory comes, takes no node; leave one "
            "of them out",
        where);
  }
  if (options_.numa_node != pinned_settings::any_numa_node) {
    constexpr std::uint64_t probe_bytes = 4096;
    void* const probe = map_pages(probe_bytes);
    int error = ENOMEM;
    bool const bound = probe != nullptr && bind_to_node(probe, probe_bytes, error);
    if (probe != nullptr) munmap(probe, probe_bytes);
    if (!bound) {
      throw_invalid_argument(
          text{"pinned_pool: numa_node("} + options_.numa_node +
              ") is refused by mbind: " + std::strerror(error) +
              "; give a node of /sys/devices/system/node/has_memory, or, if this process may not "
              "choose one (in a container: the capability SYS_NICE), leave numa_node() out",
          where);
    }
  }
  if (options_.mapped) {
    int count = 0;
    check(cudaGetDeviceCount(&count), "cudaGetDeviceCount", where);
    for (int device = 0; device < count; ++device) {
      constexpr cudaDeviceAttr both[] = {cudaDevAttrCanMapHostMemory,
                                         cudaDevAttrCanUseHostPointerForRegisteredMem};
      for (cudaDeviceAttr const needed : both) {
        int value = 0;
        check(cudaDeviceGetAttribute(&value, needed, device), "cudaDeviceGetAttribute", where);
        if (value != 0) continue;
        throw_invalid_argument(text{"pinned_pool: mapped(), but device "} + device +
                                   " cannot use page-locked memory through the host's pointer; "
                                   "leave mapped() out, and copy",
                               where);
      }
    }
  }
}

WARPWRIGHT_INLINE void* page_locked_source::map_pages(std::uint64_t bytes) const noexcept {
  std::uint64_t const slack = bytes < huge_page_bytes ? 0 : huge_page_bytes;
  if (bytes + slack < bytes) return nullptr;
  void* const all =
      mmap(nullptr, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  if (slack == 0) return all;
  // Huge pages need their alignment. What is before and behind goes back.
  auto const first = reinterpret_cast<std::uintptr_t>(all);
  std::uintptr_t const aligned = (first + (slack - 1)) & ~(slack - 1);
  std::uint64_t const page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  std::uintptr_t const end = (aligned + bytes + (page - 1)) & ~(page - 1);
  std::uintptr_t const all_end = (first + bytes + slack + (page - 1)) & ~(page - 1);
  if (aligned != first) munmap(all, aligned - first);
  if (end < all_end) munmap(reinterpret_cast<void*>(end), all_end - end);
  madvise(reinterpret_cast<void*>(aligned), bytes, MADV_HUGEPAGE);
  return reinterpret_cast<void*>(aligned);
}

WARPWRIGHT_INLINE bool page_locked_source::bind_to_node(void* pages, std::uint64_t bytes,
                                                        int& error) const noexcept {
  constexpr int most_nodes = 1024;
  constexpr int bits = 8 * sizeof(unsigned long);
  unsigned long nodes[most_nodes / bits] = {};
  error = EINVAL;
  if (options_.numa_node < 0 || options_.numa_node >= most_nodes) return false;
  nodes[options_.numa_node / bits] = 1UL << (static_cast<unsigned>(options_.numa_node) % bits);
  constexpr int bind = 2;  // MPOL_BIND
  // The kernel reads one bit less than it is told.
  bool const done = syscall(SYS_mbind, pages, bytes, bind, nodes, most_nodes + 1, 0) == 0;
  error = errno;
  return done;
}

/// The begin of a file, as text.
struct file_text {
  char text[8192] = {};

  /// @return whether the file can be read
  bool read(file_operations const& files, char const* path) noexcept {
    std::FILE* const file = files.open(files.context, path, "re");
    if (file == nullptr) return false;
    std::size_t const size = std::fread(text, 1, sizeof text - 1, file);
    text[size] = '\0';
    static_cast<void>(files.close(files.context, file));
    return size != 0;
  }
  /// The number behind a name at the begin of a line. @return `otherwise` without one
  [[nodiscard]] std::uint64_t number(char const* name, std::uint64_t otherwise) const noexcept {
    std::size_t const length = std::strlen(name);
    char const* line = text;
    while (std::strncmp(line, name, length) != 0) {
      line = std::strchr(line, '\n');
      if (line == nullptr) return otherwise;
      ++line;
    }
    char* end = nullptr;
    std::uint64_t const value = std::strtoull(line + length, &end, 10);
    return end == line + length ? otherwise : value;  // "max": no limit
  }
};

/// The files of a version of control groups.
struct control_group_files {
  char const* root;
  char const* limit;
  char const* used;
  char const* inactive;  // lines of memory.stat: pages of files, which the system takes back
  char const* active;
};

/// What a control group and those above it leave.
/// @param path  of the group, below the root; in a container it may be that of the host, and the
///   container's own group is the root
inline std::uint64_t left_by_control_groups(file_operations const& files,
                                            control_group_files const& names, char const* path,
                                            std::size_t length) noexcept {
  constexpr std::uint64_t unknown = ~std::uint64_t{0};
  std::uint64_t least = unknown;
  file_text file;
  auto const read = [&](char const* name) {
    char full[4096];
    int const size = std::snprintf(full, sizeof full, "%s%.*s/%s", names.root,
                                   static_cast<int>(length), path, name);
    return size > 0 && size < static_cast<int>(sizeof full) && file.read(files, full);
  };
  for (;;) {
    while (length != 0 && path[length - 1] == '/') --length;
    std::uint64_t const limit = read(names.limit) ? file.number("", unknown) : unknown;
    if (limit != unknown) {
      std::uint64_t used = read(names.used) ? file.number("", 0) : 0;
      if (read("memory.stat")) {
        std::uint64_t const of_files =
            file.number(names.inactive, 0) + file.number(names.active, 0);
        used = used > of_files ? used - of_files : 0;
      }
      std::uint64_t const left = limit > used ? limit - used : 0;
      if (left < least) least = left;
    }
    if (length == 0) return least;
    while (length != 0 && path[length - 1] != '/') --length;
  }
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::uint64_t available_memory(
    file_operations const& files) noexcept {
  constexpr std::uint64_t unknown = ~std::uint64_t{0};
  constexpr control_group_files second{"/sys/fs/cgroup", "memory.max", "memory.current",
                                       "inactive_file ", "active_file "};
  constexpr control_group_files first{"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                      "memory.usage_in_bytes", "total_inactive_file ",
                                      "total_active_file "};
  file_text file;
  std::uint64_t least = unknown;
  if (file.read(files, "/proc/meminfo")) {
    std::uint64_t const kib = file.number("MemAvailable:", unknown);
    if (kib != unknown) least = kib << 10U;
  }
  if (!file.read(files, "/proc/self/cgroup")) return least;
  // Lines as "4:cpu,memory:/path" of the first version, and "0::/path" of the second.
  for (char const* line = file.text; *line != '\0';) {
    std::size_t const length = std::strcspn(line, "\n");
    char const* const end = line + length;
    std::size_t const number = std::strcspn(line, ":\n");
    char const* const names = line + number + (line[number] == ':' ? 1 : 0);
    char const* const colon = names + std::strcspn(names, ":\n");
    if (*colon == ':') {
      char const* const memory = std::strstr(names, "memory");
      bool const is_second = names == colon;
      if (is_second || (memory != nullptr && memory < colon)) {
        std::uint64_t const left =
            left_by_control_groups(files, is_second ? second : first, colon + 1,
                                   static_cast<std::size_t>(end - (colon + 1)));
        if (left < least) least = left;
      }
    }
    line = *end == '\n' ? end + 1 : end;
  }
  return least;
}

/// Gives all pages memory, with several threads.
WARPWRIGHT_INLINE bool page_locked_source::fault_in(void* pages,
                                                    std::uint64_t bytes) const noexcept {
  if (bytes > available_memory(*files_)) return false;
  std::uint64_t const useful = bytes / bytes_per_thread;
  unsigned count = allowed_processors(most_threads);
  if (useful < count) count = useful == 0 ? 1 : static_cast<unsigned>(useful);
  std::uint64_t const share =
      (bytes / count + (huge_page_bytes - 1)) & ~(huge_page_bytes - 1);  // whole huge pages
  fault_in_part parts[most_threads];
  std::uint64_t done = 0;
  for (unsigned i = 0; i < count; ++i) {
    parts[i].first = static_cast<char*>(pages) + done;
    parts[i].bytes = bytes - done < share ? bytes - done : share;
    done += parts[i].bytes;
  }
  // The last part is this thread's, and those for which the system gives no thread.
  for (unsigned i = 0; i < count; ++i) {
    bool const own = i + 1 == count || parts[i].runner.start<&fault_in_part::run>(parts[i]) != 0;
    if (own) parts[i].run();
  }
  bool all = true;
  for (fault_in_part& part : parts) {
    part.runner.join();
    all = all && !part.failed;
  }
  return all;
}

/// @return cudaErrorMemoryAllocation also when the system has no pages
WARPWRIGHT_INLINE cudaError_t
page_locked_source::acquire_registered(host_segment& segment) const noexcept {
  void* const pages = map_pages(segment.bytes);
  if (pages == nullptr) return cudaErrorMemoryAllocation;
  int error = 0;
  bool const bound = options_.numa_node == pinned_settings::any_numa_node ||
                     bind_to_node(pages, segment.bytes, error);
  cudaError_t result = cudaErrorMemoryAllocation;
  if (bound && fault_in(pages, segment.bytes)) {
    unsigned flags = cudaHostRegisterPortable;
    if (options_.mapped) flags |= cudaHostRegisterMapped;
    result = cudaHostRegister(pages, segment.bytes, flags);
    discard(result);
  }
  if (result != cudaSuccess) {
    munmap(pages, segment.bytes);
    return result;
  }
  // After a fork() the first write would move this process to other pages than the device has.
  madvise(pages, segment.bytes, MADV_DONTFORK);
  segment.address = reinterpret_cast<std::uintptr_t>(pages);
  segment.from = host_segment::kind::registered;
  return cudaSuccess;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE host_segment
page_locked_source::acquire(std::uint64_t bytes, source_location where) const {
  host_segment segment;
  segment.bytes = bytes;
  char const* api = "cudaHostRegister";
  cudaError_t result = cudaErrorMemoryAllocation;
  if (!options_.write_combined) result = acquire_registered(segment);
  // cudaHostAlloc would take pages of any node.
  if (result != cudaSuccess && options_.numa_node == pinned_settings::any_numa_node) {
    unsigned flags = cudaHostAllocPortable;
    if (options_.mapped) flags |= cudaHostAllocMapped;
    if (options_.write_combined) flags |= cudaHostAllocWriteCombined;
    void* memory = nullptr;
    api = "cudaHostAlloc";
    result = cudaHostAlloc(&memory, bytes, flags);
    discard(result);
    if (result == cudaSuccess) {
      segment.address = reinterpret_cast<std::uintptr_t>(memory);
      segment.from = host_segment::kind::cuda;
    }
  }
  if (result == cudaSuccess) return segment;
  bool const no_more = result == cudaErrorMemoryAllocation;
  bool const refused = no_more || result == cudaErrorNotSupported ||
                       result == cudaErrorNotPermitted || result == cudaErrorOperatingSystem;
  if (refused && options_.pageable_fallback && bytes <= available_memory(*files_)) {
    if (void* const pages = map_pages(bytes)) {
      segment.address = reinterpret_cast<std::uintptr_t>(pages);
      segment.from = host_segment::kind::pageable;
      return segment;
    }
  }
  if (!no_more) check(result, api, where);
  return host_segment{};
}

WARPWRIGHT_INLINE char const* page_locked_source::release_api(
    host_segment const& segment) noexcept {
  return segment.from == host_segment::kind::cuda ? "cudaFreeHost" : "cudaHostUnregister";
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE cudaError_t
page_locked_source::release(host_segment const& segment) noexcept {
  void* const memory = reinterpret_cast<void*>(static_cast<std::uintptr_t>(segment.address));
  cudaError_t result = cudaSuccess;
  if (segment.from == host_segment::kind::cuda) result = cudaFreeHost(memory);
  if (segment.from == host_segment::kind::registered) result = cudaHostUnregister(memory);
  discard(result);
  if (result == cudaSuccess && segment.from != host_segment::kind::cuda) {
    munmap(memory, segment.bytes);
  }
  return result;
}

}  // namespace detail

WARPWRIGHT_END
