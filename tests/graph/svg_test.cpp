// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "digits/well_formed.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"

#include <warpwright/core/detail/text/kernel_label.hpp>
#include <warpwright/core/launch.hpp>
#include <warpwright/graph/capture.hpp>
#include <warpwright/graph/conditional.hpp>
#include <warpwright/graph/detail/nodes/graph_structure.hpp>
#include <warpwright/graph/graph_audit.hpp>

#include <string>
#include <vector>

namespace ww = warpwright;
using test_support::device_array;

namespace {

struct heat_step {
  unsigned* out;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { out[i] += 1; }
};

std::size_t count(std::string const& text, std::string const& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

}  // namespace

TEST_CASE("a drawing has a box for each node and a line for each dependency") {
  ww::stream s;
  device_array<unsigned> const x{std::vector<unsigned>(64, 0)};
  std::string const svg = ww::to_svg(ww::capture(s, [&](ww::capture_scope& scope) {
    ww::for_each_index(scope, 8, heat_step{x.data()});
    scope.fork(2, [&](ww::stream_ref branch, unsigned i) {
      ww::for_each_index(branch, 8, heat_step{x.data() + 8 * i});
    });
    ww::check(cudaMemsetAsync(x.data(), 0, 64, scope.stream()), "cudaMemsetAsync");
    ww::check(
        cudaMemcpyAsync(x.data() + 32, x.data(), 16, cudaMemcpyDeviceToDevice, scope.stream()),
        "cudaMemcpyAsync");
    ww::repeat_while(scope, x.data(), [&](ww::stream_ref inner) {
      ww::for_each_index(inner, 1, heat_step{x.data()});
    });
  }));
  INFO(svg);
  CHECK(test_support::malformed(svg).empty());
  CHECK(count(svg, "<g>") == 7);
  CHECK(count(svg, "<line ") >= 7);  // a capture may also order the fill behind the first kernel
  CHECK_THAT(svg, contains("fill 64 B"));
  CHECK_THAT(svg, contains("copy 16 B"));
  CHECK_THAT(svg, contains(">conditional</text>"));
#if !WARPWRIGHT_HOST_RUNTIME
  CHECK_THAT(svg, contains("heat_step"));
#else
  CHECK_THAT(svg, contains(">for_each_index</text>"));
#endif
}

TEST_CASE("independent nodes are beside each other, dependent ones below each other") {
  cudaGraph_t handle = nullptr;
  ww::check(cudaGraphCreate(&handle, 0), "cudaGraphCreate");
  ww::graph const g{handle};
  cudaGraphNode_t a = nullptr, b = nullptr, c = nullptr;
  ww::check(cudaGraphAddEmptyNode(&a, handle, nullptr, 0), "cudaGraphAddEmptyNode");
  ww::check(cudaGraphAddEmptyNode(&b, handle, nullptr, 0), "cudaGraphAddEmptyNode");
  ww::check(cudaGraphAddEmptyNode(&c, handle, &b, 1), "cudaGraphAddEmptyNode");
  std::string const svg = ww::to_svg(g);
  INFO(svg);
  CHECK(test_support::malformed(svg).empty());
  CHECK_THAT(svg, contains("width=\"520\" height=\"160\""));
  CHECK_THAT(svg, contains("<title>0: empty</title><rect x=\"30\" y=\"20\""));
  CHECK_THAT(svg, contains("<title>1: empty</title><rect x=\"270\" y=\"20\""));
  CHECK_THAT(svg, contains("<title>2: empty</title><rect x=\"150\" y=\"80\""));
  CHECK_THAT(svg, contains("<line x1=\"380\" y1=\"50\" x2=\"260\" y2=\"80\""));
}

TEST_CASE("an empty graph is drawn as that") {
  ww::stream s;
  std::string const svg = ww::to_svg(ww::capture(s, [](ww::stream_ref) {}));
  CHECK(test_support::malformed(svg).empty());
  CHECK_THAT(svg, contains("an empty graph"));
}

TEST_CASE("labels of kernels leave out what all kernels have") {
  using ww::detail::kernel_label;
  CHECK(kernel_label("for_each_index") == "for_each_index");
  // void a::b::block_kernel<a::index_kernel<(anonymous namespace)::heat_step> >(...)
  CHECK(kernel_label("_ZN1a1b12block_kernelINS_12index_kernelIN12_GLOBAL__N_19heat_stepEEEEEvT_") ==
        "block_kernel<index_kernel<heat_step>>");
  CHECK(kernel_label("_Z3addPii") == "add");         // add(int*, int)
  CHECK(kernel_label("_ZN1a3addEPii") == "add");     // a::add(int*, int)
  CHECK(kernel_label("_ZN1aIiE3addEPii") == "add");  // a<int>::add(int*, int)
  CHECK(kernel_label("_Z3addIfLi4EEvPT_") == "add<float, 4>");
  CHECK(kernel_label("") == "");
}
