// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Every offset, from a boundary of 256 bytes, of row(), col() and device_scalar() beside in() and
// out(): numbers, complex numbers and structs. Outputs are poisoned, with guards on both sides; so
// is what lies beside the operands. elementwise_sizes_test.cpp has all sizes of in() and out()
// alone. That vectors lie on their boundaries only a GPU shows: the host copies bytes.

#include <complex>

#include <warpwright/kernel.hpp>

#include "kernel/support.hpp"
#include "kernel/sweep.hpp"
#include "support/catch.hpp"

namespace ew = warpwright::ew;
namespace ww = warpwright;
using kernel_test::guarded;
using kernel_test::most_offset;

namespace {

template <class Member, std::size_t Count>
struct of {
  Member member[Count];
};
template <class T>
inline constexpr bool is_struct = false;
template <class Member, std::size_t Count>
inline constexpr bool is_struct<of<Member, Count>> = true;
template <class T>
inline constexpr bool is_complex = std::is_same<T, std::complex<float>>::value;

// An element of the number v, and the numbers in one: a linear function, exact in all types here.
using value = std::complex<double>;
template <class T>
T made_of(std::size_t v) {
  if constexpr (is_struct<T>) {
    T t{};
    for (auto& m : t.member) m = static_cast<std::decay_t<decltype(m)>>(v++);
    return t;
  } else if constexpr (is_complex<T>) {
    return {static_cast<float>(v), static_cast<float>(3 * v + 1)};
  } else {
    return kernel_test::number<T>(static_cast<double>(v));
  }
}
template <class T>
value value_of(T const& t) {
  if constexpr (is_struct<T>) {
    double sum = 0;
    for (auto const m : t.member) sum = 1024 * sum + static_cast<double>(m);
    return sum;
  } else if constexpr (is_complex<T>) {
    return {static_cast<double>(t.real()), static_cast<double>(t.imag())};
  } else {
    return kernel_test::as_double(t);
  }
}

// Of structs, what the expression is of numbers.
struct combined {
  template <class Member, std::size_t Count>
  WARPWRIGHT_HOST_DEVICE of<Member, Count> operator()(of<Member, Count> x,
                                                      of<Member, Count> const& r,
                                                      of<Member, Count> const& c,
                                                      of<Member, Count> const& d) const {
    for (std::size_t k = 0; k < Count; ++k) {
      x.member[k] = static_cast<Member>(x.member[k] * 2 + r.member[k] - c.member[k] + d.member[k]);
    }
    return x;
  }
};

template <class T>
std::vector<T> elements(std::size_t count, std::size_t least, std::size_t limit,
                        kernel_test::random_numbers& random) {
  std::vector<T> values(count);
  for (T& v : values) v = made_of<T>(least + random.below(limit));
  return values;
}

// out = in * 2 + row - col + device_scalar over a matrix; small integers, so that it is exact, and
// in bytes below the poison.
template <class O, class X, class R, class C, class D>
class matrix {
 public:
  matrix(std::size_t rows, std::size_t cols, std::uint64_t seed)
      : cols_{cols}, n_{rows * cols}, random_{seed}, out_{n_}, in_{n_}, row_{cols}, col_{rows} {
    for (std::size_t i = 0; i < n_; ++i) {
      expected_.push_back(value_of(x_[i]) * 2.0 + value_of(r_[i % cols]) - value_of(c_[i / cols]) +
                          value_of(d_[0]));
    }
  }

  // @param at  the offsets of the output and of the operands
  bool right(std::size_t const (&at)[5]) const {
    O* const out = out_.clear(at[0]);
    auto const a = assign(out, in_.assign(x_, at[1]), row_.assign(r_, at[2]),
                          col_.assign(c_, at[3]), single_.assign(d_, at[4]));
    kernel_test::evaluate_on(stream_, a);
    for (std::size_t i = 0; i < n_; ++i) {
      if (value_of(out[i]) != expected_[i]) return false;
    }
    return out_.intact(n_) && in_.intact(n_) && row_.intact(r_.size()) && col_.intact(c_.size()) &&
           single_.intact(1);
  }

 private:
  auto assign(O* out, X const* x, R const* r, C const* c, D const* d) const {
    auto const in = ew::in(x, n_);
    auto const row = ew::row(r, cols_);
    auto const col = ew::col(c, cols_);
    auto const single = ew::device_scalar(d);
    if constexpr (is_struct<O>) {
      return ew::out(out, n_) = ew::map(combined{}, in, row, col, single);
    } else {
      return ew::out(out, n_) = in * 2 + row - col + single;
    }
  }

  std::size_t cols_, n_;
  kernel_test::random_numbers random_;
  std::vector<X> const x_ = elements<X>(n_, 0, 30, random_);
  std::vector<R> const r_ = elements<R>(cols_, 0, 30, random_);
  std::vector<C> const c_ = elements<C>(n_ / cols_, 0, 7, random_);
  std::vector<D> const d_ = elements<D>(1, 8, 5, random_);
  std::vector<value> expected_;
  guarded<O> out_;
  guarded<X> in_;
  guarded<R> row_;
  guarded<C> col_;
  guarded<D> single_{1};
  ww::stream stream_;
};

template <class O, class X = O, class R = O, class C = O, class D = O>
void check_offsets() {
  using under_test = matrix<O, X, R, C, D>;
  std::uint64_t const seed = 101;
  // Rows of whole vectors of all widths and of none, of one element, and one row alone.
  std::size_t const shapes[][2] = {{9, 512}, {37, 8}, {5, 33}, {1, 100}, {100, 1}};
  for (auto const& shape : shapes) {
    under_test const m{shape[0], shape[1], seed};
    for (std::size_t offset = 0; offset < most_offset; offset += kernel_test::offset_step) {
      for (std::size_t which = 0; which <= 5; ++which) {  // each alone, then all equally
        std::size_t at[5];
        for (std::size_t k = 0; k < 5; ++k) at[k] = which == k || which == 5 ? offset : 0;
        CAPTURE(seed, shape[0], shape[1], offset, which);
        REQUIRE(m.right(at));
      }
    }
  }
}

}  // namespace

TEST_CASE("every offset of row(), col() and device_scalar(): float") { check_offsets<float>(); }
TEST_CASE("every offset of row(), col() and device_scalar(): __half") { check_offsets<__half>(); }
TEST_CASE("every offset of row(), col() and device_scalar(): bytes") {
  check_offsets<unsigned char>();
}
TEST_CASE("every offset of row(), col() and device_scalar(): mixed types") {
  check_offsets<double, float, __nv_bfloat16, short, unsigned char>();
  check_offsets<__half, unsigned char, double, float, __half>();
}
TEST_CASE("every offset of complex numbers, and of a row() of real ones") {
  check_offsets<std::complex<float>>();
  check_offsets<std::complex<float>, std::complex<float>, float, __half, std::complex<float>>();
}
TEST_CASE("every offset of structs") {
  check_offsets<of<short, 3>>();  // which no vector access has
  check_offsets<of<float, 2>>();
  check_offsets<of<float, 4>>();
}
