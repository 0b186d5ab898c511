// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Draws for numbers of elements from 0 to 4,096, those around vectors and warps: element i is the
// same to the last bit, however many there are and wherever they lie. Outputs are poisoned, with
// guards on both sides.

#include <warpwright/kernel.hpp>
#include <warpwright/kernel/random.hpp>

#include "kernel/support.hpp"
#include "kernel/sweep.hpp"
#include "support/catch.hpp"

namespace ew = warpwright::ew;
namespace ww = warpwright;
using kernel_test::first_of;
using kernel_test::guarded;
using kernel_test::most_size;

namespace {

struct uniform_of {
  template <class X>
  auto operator()(X const&, ew::philox const& rng) const {
    return ew::uniform(rng);
  }
};
struct normal_of {
  template <class X>
  auto operator()(X const&, ew::philox const& rng) const {
    return ew::normal(rng);
  }
};
struct dropout_of {
  template <class X>
  auto operator()(X const& x, ew::philox const& rng) const {
    return ew::dropout(x, 0.3, rng);
  }
};

template <class T, class Make>
void check_sizes(Make make) {
  std::uint64_t const seed = 151;
  INFO("seed " << seed);
  kernel_test::random_numbers random{seed};
  ew::philox const rng = ew::philox{random.next(), random.next()}.subsequence(3);
  std::vector<T> x = kernel_test::small_integers<T>(most_size, 99, random.next());
  for (T& v : x) v = kernel_test::number<T>(kernel_test::as_double(v) + 1);  // none is 0
  guarded<T> const in{most_size}, out{most_size};
  ww::stream s;
  T* const all = out.clear(0);
  ew::run(s, ew::out(all, most_size) = make(ew::in(in.assign(x, 0), most_size), rng));
  s.synchronize();
  std::vector<T> const drawn(all, all + most_size);
  for (std::size_t n = 0; n <= most_size; n = kernel_test::next_size(n)) {
    kernel_test::some_offsets<2> const at{n, random};
    std::vector<T> const operand = first_of(x, n);
    T const* const from = in.assign(operand, at.of[0]);
    CAPTURE(n, at.of[0], at.of[1]);
    T* const to = out.clear(at.of[1]);
    kernel_test::evaluate_on(s, ew::out(to, n) = make(ew::in(from, n), rng));
    REQUIRE(out.holds(first_of(drawn, n)));
    REQUIRE(in.holds(operand));
  }
}

}  // namespace

TEST_CASE("sizes around vectors and warps: uniform numbers") {
  check_sizes<float>(uniform_of{});
  check_sizes<double>(uniform_of{});
}
TEST_CASE("sizes around vectors and warps: normal numbers") {
  check_sizes<float>(normal_of{});
  check_sizes<__half>(normal_of{});
}
TEST_CASE("sizes around vectors and warps: dropout") {
  check_sizes<float>(dropout_of{});
  check_sizes<__nv_bfloat16>(dropout_of{});
}
