// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// compare_graphs(): what is a difference of two captures, and what is none.
#include "graph/cache_support.hpp"

#include <warpwright/core/detail/padding.hpp>
#include <warpwright/graph/compare_graphs.hpp>
#include <warpwright/graph/detail/nodes/graph_structure.hpp>
#include <warpwright/kernel/evaluate.hpp>
#include <warpwright/kernel/functions.hpp>
#include <warpwright/kernel/multi_tensor.hpp>
#include <warpwright/kernel/tensor_norms.hpp>
#include <warpwright/kernel/views.hpp>

#include <cstring>

namespace ww = warpwright;
namespace ew = ww::ew;
using namespace test_support;

namespace {

WARPWRIGHT_NOINLINE void fill_stack(unsigned char value) {
  unsigned char volatile bytes[65536];
  for (unsigned char volatile& byte : bytes) byte = value;
}

// Captures a step twice, with other bytes where its objects will be on the stack.
template <class Step>
ww::graph_difference difference_of_captures(ww::stream& s, Step const& step) {
  auto const captured = [&](unsigned char value) {
    return ww::capture(s, [&](ww::stream_ref t) {
      fill_stack(value);
      step(t);
    });
  };
  ww::graph const before = captured(0x33);
  return ww::compare_graphs(before, captured(0xCC));
}

struct padded_add {
  char amount;
  double factor;
  WARPWRIGHT_HOST_DEVICE void operator()(float& x) const {
    x += static_cast<float>(amount * factor);
  }
};

struct padded_scale {
  char amount;
  double factor;
  WARPWRIGHT_HOST_DEVICE float operator()(float x) const {
    return x * static_cast<float>(amount * factor);
  }
};

struct padded_store {
  char amount;
  float* to;
  short more;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    to[i] = static_cast<float>(amount + more);
  }
};

struct no_work : ww::detail::kernel_base<256> {
  int value = 0;  // the byte of an empty object has no value

  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block&) const {}
};

}  // namespace

TEST_CASE("compare_graphs: a difference is named as that of its own node") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  auto const captured = [&](int fill, std::uint64_t n) {
    return ww::capture(s, [&](ww::stream_ref t) {
      ww::for_each_index(t, 16, add_amount{x.data(), 1});
      ww::check(cudaMemsetAsync(x.data(), fill, 64, t), "cudaMemsetAsync");
      ww::for_each_index(t, n, add_amount{x.data(), 1});
    });
  };
  ww::graph const a = captured(0, 16);
  ww::graph_difference const of_fill = ww::compare_graphs(a, captured(1, 16));
  CHECK(of_fill.node == 1);
  CHECK(of_fill.kernel.empty());
  CHECK(of_fill.argument == -1);
  CHECK_THAT(of_fill.text, contains("node 1: a parameter was"));
  ww::graph_difference const of_grid = ww::compare_graphs(a, captured(0, 100000));
  CHECK(of_grid.node == 2);
  CHECK(of_grid.argument == -1);
  CHECK_THAT(of_grid.text, contains("the grid of a kernel changed"));
}

TEST_CASE("compare_graphs: equal graphs, and each kind of difference") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  auto const made = [&](auto&& step) { return ww::capture(s, step); };
  auto const plain = [&](ww::stream_ref t) { ww::for_each_index(t, 16, add_amount{x.data(), 1}); };
  ww::graph const a = made(plain);
  ww::graph const b = made(plain);
  CHECK_FALSE(ww::compare_graphs(a, b));
  CHECK_FALSE(ww::compare_graphs(a, b, &a));
  ww::graph const empty = made([](ww::stream_ref) {});
  CHECK_THAT(ww::compare_graphs(a, empty).text,
             contains("the number of nodes changed from 1 to 0"));
  ww::graph const fill = made(
      [&](ww::stream_ref t) { ww::check(cudaMemsetAsync(x.data(), 0, 64, t), "cudaMemsetAsync"); });
  CHECK_THAT(ww::compare_graphs(a, fill).text, contains("the type of a node changed"));
  ww::graph const other = made([&](ww::stream_ref t) {
    ww::for_each_index(t, 16, multiply_by{x.data(), 1});
  });
  CHECK_THAT(ww::compare_graphs(a, other).text, contains("the kernel of a node changed"));
  ww::graph const larger = made([&](ww::stream_ref t) {
    ww::for_each_index(t, 1 << 20, add_amount{x.data(), 1});
  });
  CHECK(ww::compare_graphs(a, larger).found);
}

TEST_CASE("compare_graphs: the bytes of allocations, and external events") {
  ww::stream s;
  auto const allocating = [&](std::size_t bytes) {
    return ww::capture(s, [&](ww::stream_ref t) {
      void* p = nullptr;
      ww::check(cudaMallocAsync(&p, bytes, t), "cudaMallocAsync");
      ww::check(cudaFreeAsync(p, t), "cudaFreeAsync");
    });
  };
  ww::graph const small = allocating(1000);
  ww::graph const large = allocating(1001000);
  CHECK_THAT(ww::compare_graphs(small, large).text, contains("the bytes of an allocation changed"));
  ww::event const a;
  ww::event const b;
  auto const recording = [&](ww::event const& e) {
    return ww::capture(s, [&](ww::stream_ref t) {
      ww::check(cudaEventRecordWithFlags(e.get(), t, cudaEventRecordExternal), "record");
    });
  };
  auto const waiting = [&](ww::event const& e) {
    return ww::capture(s, [&](ww::stream_ref t) {
      ww::check(cudaStreamWaitEvent(t, e.get(), cudaEventWaitExternal), "wait");
    });
  };
  ww::graph const record = recording(a), other_record = recording(b), same_record = recording(a);
  CHECK(ww::compare_graphs(record, other_record).found);
  CHECK_FALSE(ww::compare_graphs(record, same_record).found);
  ww::graph const wait = waiting(a), other_wait = waiting(b), same_wait = waiting(a);
  CHECK(ww::compare_graphs(wait, other_wait).found);
  CHECK_FALSE(ww::compare_graphs(wait, same_wait).found);
}

TEST_CASE("compare_graphs: bytes of padding in kernels' arguments are no difference") {
  if (!WARPWRIGHT_CLEARS_PADDING) return;  // this compiler cannot
  ww::stream s;
  constexpr std::size_t n = 4096;
  device_array<float> a{std::vector<float>(n, 1)};
  device_array<float> b{std::vector<float>(n, 1)};
  device_array<unsigned char> memory{
      std::vector<unsigned char>(ew::global_norm_workspace_bytes, 0)};
  auto const workspace = ew::prepare_workspace(s, memory.data(), memory.size());
  float* const x = a.data();
  float* const y = b.data();
  auto const check = [&](char const* name, auto const& step) {
    INFO(name);
    ww::graph_difference const found = difference_of_captures(s, step);
    INFO(found.text);
    CHECK_FALSE(found);
  };
  check("a user's functor", [&](ww::stream_ref t) {
    ww::for_each_index(t, n, padded_store{1, x, 2});
  });
  check("scalars", [&](ww::stream_ref t) { ew::run(t, ew::out(x, n) = ew::in(y, n) * 2 + 1.0); });
  check("several outputs", [&](ww::stream_ref t) {
    auto const angle = ew::pow(ew::constant(10000.0F), ew::cast<float>(ew::index()));
    ew::run(t, ew::tie(ew::out(x, n) = ew::cos(angle), ew::out(y, n) = ew::sin(angle)));
  });
  check("a user's function in an expression", [&](ww::stream_ref t) {
    ew::run(t, ew::out(x, n) = ew::map(padded_scale{1, 2}, ew::in(y, n)));
  });
  check("views", [&](ww::stream_ref t) {
    auto const picture = ew::array(y, {4, 16, 16, 4}).permuted({0, 3, 1, 2});
    ew::run(t, ew::out(x, n) = ew::view(picture));
    ew::run(t, ew::out(picture) = ew::in(x, n));
  });
  ew::tensor_list<float> list;
  list.add(x, 100);
  list.add(x + 100, 300);
  ew::tensor_list<float const> gradients;
  gradients.add(y, 100);
  check("a list with few tensors", [&](ww::stream_ref t) {
    ew::run_each(t, list, padded_add{1, 2});
    ew::global_norm(t, workspace, gradients, x);
  });
}

TEST_CASE("compare_graphs: bytes with what verify_every() filled the stack with are padding") {
#if WARPWRIGHT_HOST_RUNTIME
  // A kernel of other code, whose arguments the library does not see.
  struct arguments {
    alignas(8) unsigned char bytes[16];
  };
  static char const identity = 0;
  ww::stream s;
  auto const captured = [&](unsigned char third, unsigned char last) {
    return ww::capture(s, [&](ww::stream_ref t) {
      arguments values{};
      values.bytes[2] = third;
      std::memset(values.bytes + 9, last, 7);
      warpwright_host_kernel kernel{};
      kernel.name = "padded";
      kernel.function = &identity;
      kernel.run = [](void const*, unsigned long long, unsigned long long) {};
      kernel.arguments = &values;
      kernel.arguments_bytes = sizeof values;
      kernel.arguments_alignment = alignof(arguments);
      kernel.size = 1;
      ww::check(warpwrightHostLaunchKernel(&kernel, t.get()), "kernel launch");
    });
  };
  unsigned char const now_fill = ww::detail::stack_fill_now;
  unsigned char const again_fill = ww::detail::stack_fill_again;
  ww::graph const before = captured(1, 0x77);
  ww::graph const now = captured(1, now_fill);
  ww::graph const again = captured(1, again_fill);
  CHECK_FALSE(ww::compare_graphs(before, now, &again));
  CHECK(ww::compare_graphs(before, now).found);
  // A value is none: it stays the same, or has other bytes.
  ww::graph const steady = captured(1, now_fill);
  CHECK(ww::compare_graphs(before, now, &steady).found);
  ww::graph const counting = captured(1, 0x01);
  CHECK(ww::compare_graphs(before, now, &counting).offset == 9);
  ww::graph const changed = captured(2, now_fill);
  ww::graph const changed_again = captured(2, again_fill);
  ww::graph_difference const found = ww::compare_graphs(before, changed, &changed_again);
  CHECK(found.argument == 0);
  CHECK(found.offset == 2);
#else
  SUCCEED("it needs a launch that takes bytes");
#endif
}

TEST_CASE("compare_graphs: the blocks and the shared memory of a kernel") {
  ww::stream s;
  auto const captured = [&](unsigned threads, std::size_t shared_bytes) {
    return ww::capture(s, [&](ww::stream_ref t) {
      ww::detail::launch_blocks(t, 2, threads, no_work{}, "no_work", ww::source_location::current(),
                                shared_bytes);
    });
  };
  ww::graph const plain = captured(64, 256);
  CHECK_FALSE(ww::compare_graphs(plain, captured(64, 256)));
  CHECK_THAT(ww::compare_graphs(plain, captured(128, 256)).text,
             contains("the blocks of a kernel changed from 64 to 128"));
  CHECK_THAT(ww::compare_graphs(plain, captured(64, 512)).text,
             contains("the shared memory of a kernel changed from 256 to 512"));
}

TEST_CASE("compare_graphs: the dependencies of equal nodes") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  auto const add = [&](ww::stream_ref t) { ww::for_each_index(t, 16, add_amount{x.data(), 1}); };
  auto const chain = [&](int kernels) {
    return ww::capture(s, [&](ww::stream_ref t) {
      for (int i = 0; i < kernels; ++i) add(t);
    });
  };
  auto const forked = [&](bool joined) {
    return ww::capture(s, [&](ww::capture_scope& scope) {
      add(scope);
      scope.fork(2, [&](ww::stream_ref branch, unsigned) { add(branch); });
      if (joined) add(scope);
    });
  };
  CHECK_THAT(ww::compare_graphs(chain(4), forked(true)).text,
             contains("the number of dependencies changed from 3 to 4"));
  ww::graph_difference const other = ww::compare_graphs(chain(3), forked(false));
  CHECK(other.node == 2);
  CHECK(other.argument == -1);
  CHECK_THAT(other.text, contains("node 2: the nodes that it depends on changed"));
  CHECK_FALSE(ww::compare_graphs(forked(true), forked(true)));
}

TEST_CASE("compare_graphs: temporary memory of a child graph is recognised") {
#if CUDART_VERSION >= 12040
  ww::stream s;
  auto const parent_of = [&](device_array<int> const& memory) {
    ww::graph const child = ww::capture(s, [&](ww::stream_ref t) {
      ww::for_each_index(t, 16, add_amount{memory.data(), 1});
    });
    cudaGraph_t made = nullptr;
    ww::check(cudaGraphCreate(&made, 0), "cudaGraphCreate");
    ww::graph parent{made};
    cudaGraphNode_t node = nullptr;
    ww::check(cudaGraphAddChildGraphNode(&node, made, nullptr, 0, child.get()),
              "cudaGraphAddChildGraphNode");
    return parent;
  };
  device_array<int> a{std::vector<int>(16, 0)};
  device_array<int> b{std::vector<int>(16, 0)};
  device_array<int> c{std::vector<int>(16, 0)};
  ww::graph const before = parent_of(a);
  ww::graph const now = parent_of(b);
  ww::graph const again = parent_of(c);
  CHECK_FALSE(ww::compare_graphs(before, now, &again));
  CHECK_THAT(ww::compare_graphs(before, now, &now).text,
             contains("(in the child graph of node 0)"));
#endif
}
