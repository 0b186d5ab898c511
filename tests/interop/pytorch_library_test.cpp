// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The shared library of examples/pytorch_allocator, used as PyTorch uses it: loaded by name, its
// functions called with sizes, ordinals and streams. examples/pytorch_allocator/train.py is the
// test with PyTorch itself.
#include "memory/support.hpp"
#include "support/catch.hpp"

#include <dlfcn.h>

#include <deque>
#include <new>
#include <string>

namespace ww = warpwright;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20U;

struct torch_library {
  void* handle = dlopen(WARPWRIGHT_TORCH_LIBRARY, RTLD_NOW | RTLD_LOCAL);

  template <class Function>
  Function* find(char const* name) const {
    void* const symbol = dlsym(handle, name);
    REQUIRE(symbol != nullptr);
    return reinterpret_cast<Function*>(symbol);
  }
};

// Never closed, as by PyTorch.
torch_library const& library() {
  static torch_library const loaded;
  return loaded;
}

// Alive as long as the library's pools, as PyTorch's streams are.
struct program_streams {
  ww::stream own{};
  ww::stream side{};
};
program_streams const& streams() {
  static program_streams const* const made = new program_streams{};
  return *made;
}

// The types that PyTorch casts the functions' addresses to.
using alloc_function = void*(std::size_t, int, cudaStream_t);
using free_function = void(void*, std::size_t, int, cudaStream_t);
using record_stream_function = void(void*, cudaStream_t);
using reset_function = void();
using memory_fraction_function = void(double, int);
using figure_function = unsigned long long(int);

}  // namespace

TEST_CASE("the library for PyTorch has the functions that PyTorch loads") {
  REQUIRE(library().handle != nullptr);
  library().find<alloc_function>("warpwright_torch_alloc");
  library().find<free_function>("warpwright_torch_free");
  library().find<record_stream_function>("warpwright_torch_record_stream");
  library().find<reset_function>("warpwright_torch_reset");
  library().find<memory_fraction_function>("warpwright_torch_memory_fraction");
}

TEST_CASE("the library for PyTorch: tensors of a training step") {
  REQUIRE(library().handle != nullptr);
  auto* const allocate = library().find<alloc_function>("warpwright_torch_alloc");
  auto* const free = library().find<free_function>("warpwright_torch_free");
  auto* const live = library().find<figure_function>("warpwright_torch_live_bytes");
  auto* const upstream = library().find<figure_function>("warpwright_torch_upstream_allocations");
  auto* const allocations = library().find<figure_function>("warpwright_torch_allocations");
  ww::stream const& s = streams().own;
  unsigned long long const allocations_before = allocations(0);
  unsigned long long upstream_after_first = 0;
  for (int step = 0; step < 20; ++step) {
    std::deque<void*> tensors;
    for (std::size_t i = 1; i <= 30; ++i) {
      void* const p = allocate(i * 10000, 0, s.get());
      REQUIRE(p != nullptr);
      test_support::fill(s, p, static_cast<unsigned char>(i), i * 10000);
      tensors.push_back(p);
    }
    bool right = true;
    for (std::size_t i = 1; i <= 30; ++i) {
      right = right && test_support::all_are(test_support::fetch(s, tensors.front(), i * 10000),
                                             static_cast<unsigned char>(i));
      free(tensors.front(), i * 10000, 0, s.get());
      tensors.pop_front();
    }
    CHECK(right);
    if (step == 0) upstream_after_first = upstream(0);
  }
  CHECK(upstream(0) == upstream_after_first);  // later steps make no cudaMalloc
  CHECK(allocations(0) - allocations_before == 600);
  CHECK(live(0) == 0);
}

TEST_CASE("the library for PyTorch: another stream, the default stream, an empty tensor") {
  REQUIRE(library().handle != nullptr);
  auto* const allocate = library().find<alloc_function>("warpwright_torch_alloc");
  auto* const free = library().find<free_function>("warpwright_torch_free");
  auto* const record = library().find<record_stream_function>("warpwright_torch_record_stream");
  auto* const live = library().find<figure_function>("warpwright_torch_live_bytes");
  CHECK(allocate(0, 0, nullptr) == nullptr);
  free(nullptr, 0, 0, nullptr);
  void* const on_default = allocate(mib, 0, nullptr);
  CHECK(on_default != nullptr);
  free(on_default, mib, 0, nullptr);

  ww::stream const& own = streams().own;
  ww::stream const& side = streams().side;
  void* const p = allocate(mib, 0, own.get());
  test_support::gate hold{side};
  record(p, side.get());
  free(p, mib, 0, own.get());
  void* const q = allocate(mib, 0, own.get());
  CHECK(q != p);  // the side stream may still be reading p
  free(q, mib, 0, own.get());
  CHECK(live(0) == 0);
}

TEST_CASE("the library for PyTorch: errors are exceptions, but never from free") {
  REQUIRE(library().handle != nullptr);
  auto* const allocate = library().find<alloc_function>("warpwright_torch_alloc");
  auto* const free = library().find<free_function>("warpwright_torch_free");
  auto* const fraction =
      library().find<memory_fraction_function>("warpwright_torch_memory_fraction");
  auto* const reset = library().find<reset_function>("warpwright_torch_reset");
  auto* const peak = library().find<figure_function>("warpwright_torch_reserved_peak_bytes");
  CHECK_THROWS_AS(allocate(std::size_t{1} << 50U, 0, nullptr), std::bad_alloc);
  CHECK_THROWS_WITH(allocate(100, 1000, nullptr), contains("device 1000 does not exist"));
  CHECK_THROWS_WITH(fraction(0.5, 0), contains("in use already"));
  int not_ours = 0;
  free(&not_ours, 4, 0, nullptr);  // reports it on stderr
  reset();
  void* const p = allocate(mib, 0, nullptr);
  CHECK(p != nullptr);
  free(p, mib, 0, nullptr);
  CHECK(peak(0) >= mib);
}
