// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// An upstream for tests of adaptors: a pool that fails on demand and records the last call.
#pragma once

#include <warpwright/memory/pool.hpp>

#include <cstddef>
#include <stdexcept>
#include <string>

namespace test_support {

namespace ww = warpwright;

class scripted_upstream {
 public:
  enum class answer { memory, none, cuda_error };

  explicit scripted_upstream(ww::memory_pool& pool) : pool_{pool} {}

  void* allocate(ww::stream_ref stream, std::size_t bytes, std::size_t alignment,
                 ww::source_location where) {
    void* const pointer = try_allocate(stream, bytes, alignment, where);
    if (pointer == nullptr) throw ww::out_of_memory{ww::memory_report{}, where};
    return pointer;
  }
  void* try_allocate(ww::stream_ref stream, std::size_t bytes, std::size_t alignment,
                     ww::source_location where) {
    ++calls;
    note(stream, bytes, where);
    last_alignment = alignment;
    if (next_allocation == answer::none) return nullptr;
    fail(next_allocation, where);
    return pool_.allocate(stream, bytes, alignment, where);
  }
  void deallocate(ww::stream_ref stream, void* pointer, std::size_t bytes,
                  ww::source_location where) {
    ++calls;
    note(stream, bytes, where);
    fail(next_deallocation, where);
    pool_.deallocate(stream, pointer, bytes, where);
  }
  ww::device_id device() const { return pool_.device(); }

  answer next_allocation = answer::memory;
  answer next_deallocation = answer::memory;
  int calls = 0;
  cudaStream_t last_stream = nullptr;
  std::size_t last_bytes = 0;
  std::size_t last_alignment = 0;
  std::string last_file;
  int last_line = 0;

 private:
  void note(ww::stream_ref stream, std::size_t bytes, ww::source_location where) {
    last_stream = stream.get();
    last_bytes = bytes;
    last_file = where.file();
    last_line = where.line();
  }
  static void fail(answer what, ww::source_location where) {
    if (what != answer::memory) {
      throw ww::cuda_error{cudaErrorInvalidValue, "scripted_upstream", where, false};
    }
  }

  ww::memory_pool& pool_;
};

}  // namespace test_support
