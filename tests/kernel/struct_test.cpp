// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Elements that are structs of the user's own, of all sizes: read, given to functions, made by them
// and written, beside numbers and at every offset.
#include <warpwright/kernel.hpp>

#include <utility>

#include "kernel/support.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"

namespace ew = warpwright::ew;
namespace ww = warpwright;
using kernel_test::guarded;
using test_support::device_array;

namespace {

template <class Member, std::size_t Count>
struct of {
  Member member[Count];
};
struct mixed {
  double d;
  float f;
  unsigned char c;
};  // 16 bytes, three of them padding
struct alignas(16) aligned {
  float a, b, c;
};

template <class T>
struct filled;
template <class Member, std::size_t Count>
struct filled<of<Member, Count>> {
  WARPWRIGHT_HOST_DEVICE of<Member, Count> operator()(std::uint64_t i) const {
    of<Member, Count> t;
    for (std::size_t k = 0; k < Count; ++k) {
      t.member[k] = static_cast<Member>((i * 7 + k) % 101);
    }
    return t;
  }
};
template <>
struct filled<mixed> {
  WARPWRIGHT_HOST_DEVICE mixed operator()(std::uint64_t i) const {
    return {static_cast<double>(i), static_cast<float>(i % 77), static_cast<unsigned char>(i)};
  }
};
template <>
struct filled<aligned> {
  WARPWRIGHT_HOST_DEVICE aligned operator()(std::uint64_t i) const {
    auto const v = static_cast<float>(i % 1000);
    return {v, v + 1, v + 2};
  }
};

// A number that depends on all of a struct.
template <class Member, std::size_t Count>
WARPWRIGHT_HOST_DEVICE float weight(of<Member, Count> const& t) {
  float sum = 0;
  for (std::size_t k = 0; k < Count; ++k) {
    sum += static_cast<float>(k + 1) * static_cast<float>(t.member[k]);
  }
  return sum;
}
WARPWRIGHT_HOST_DEVICE inline float weight(mixed const& t) {
  return static_cast<float>(t.d) + 3 * t.f + 5 * static_cast<float>(t.c);
}
WARPWRIGHT_HOST_DEVICE inline float weight(aligned const& t) { return t.a + 3 * t.b + 5 * t.c; }

struct weighed {
  template <class T>
  WARPWRIGHT_HOST_DEVICE float operator()(T const& t) const {
    return weight(t);
  }
};
// A struct from a struct, a number beside it and another struct.
struct chosen {
  template <class T>
  WARPWRIGHT_HOST_DEVICE T operator()(T const& a, float x, T const& b) const {
    return x < 5 ? a : b;
  }
};

template <class T>
std::vector<T> sequence(std::size_t n, std::uint64_t start) {
  std::vector<T> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = filled<T>{}(start + i);
  return values;
}

template <class T>
void check_struct() {
  ww::stream s;
  CAPTURE(sizeof(T), alignof(T));
  for (std::size_t n : {1U, 2U, 5U, 33U, 257U, 1000U, 4099U}) {
    auto const x = kernel_test::small_integers<float>(n, 10, n);
    auto const a = sequence<T>(n, 0);
    auto const b = sequence<T>(n, 50);
    for (std::size_t offset = 0; offset < 4; ++offset) {
      CAPTURE(n, offset);
      guarded<T> const da{a, offset};
      guarded<T> const db{b, offset == 3 ? 0 : offset};
      guarded<float> const dx{x, offset};
      guarded<T> const made{n, offset};
      guarded<T> const copied{n, 0};
      guarded<T> const picked{n, offset % 2};
      guarded<float> const weights{n, offset};
      ew::run(s, ew::out(made.data(), n) = ew::map(filled<T>{}, ew::index()));
      ew::run(s, ew::out(copied.data(), n) = ew::in(da.data(), n));
      ew::run(s, ew::tie(ew::out(picked.data(), n) =
                             ew::map(chosen{}, ew::in(da.data(), n), ew::in(dx.data(), n),
                                     ew::in(db.data(), n)),
                         ew::out(weights.data(), n) =
                             ew::map(weighed{}, ew::in(da.data(), n)) + ew::in(dx.data(), n)));
      ew::run(s, ew::out(da.data(), n) = ew::where(ew::in(dx.data(), n) < 5, ew::in(da.data(), n),
                                                   ew::device_scalar(db.data())));
      auto const got_made = made.fetch(s);
      auto const got_copied = copied.fetch(s);
      auto const got_picked = picked.fetch(s);
      auto const got_weights = weights.fetch(s);
      auto const got_in_place = da.fetch(s);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < n; ++i) {
        wrong += weight(got_made[i]) != weight(a[i]);
        wrong += std::memcmp(&got_copied[i], &a[i], sizeof(T)) != 0 &&
                 weight(got_copied[i]) != weight(a[i]);  // padding need not be copied
        wrong += weight(got_picked[i]) != weight(x[i] < 5 ? a[i] : b[i]);
        wrong += got_weights[i] != weight(a[i]) + x[i];
        wrong += weight(got_in_place[i]) != weight(x[i] < 5 ? a[i] : b[0]);
      }
      REQUIRE(wrong == 0);
      REQUIRE((made.intact(s) && copied.intact(s) && picked.intact(s) && weights.intact(s)));
      REQUIRE((da.intact(s) && db.intact(s) && dx.intact(s)));
    }
  }
}

// Rows and columns of structs.
template <class T>
void check_repeats() {
  ww::stream s;
  CAPTURE(sizeof(T));
  std::size_t const rows = 37;
  for (std::size_t cols : {1U, 8U, 11U}) {
    guarded<T> const along{sequence<T>(cols, 3), 1};
    guarded<T> const down{sequence<T>(rows, 9), 1};
    device_array<float> const out{rows * cols};
    ew::run(s, ew::out(out.data(), rows * cols) = ew::map(weighed{}, ew::row(along.data(), cols)) -
                                                  ew::map(weighed{}, ew::col(down.data(), cols)));
    auto const got = out.fetch(s);
    auto const a = along.fetch(s);
    auto const d = down.fetch(s);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < rows * cols; ++i) {
      wrong += got[i] != weight(a[i % cols]) - weight(d[i / cols]);
    }
    CAPTURE(cols);
    CHECK(wrong == 0);
  }
}

template <class... T>
void check_all() {
  (check_struct<T>(), ...);
  (check_repeats<T>(), ...);
}

}  // namespace

TEST_CASE("structs of all sizes and alignments") {
  check_all<of<unsigned char, 1>, of<unsigned char, 3>, of<unsigned char, 8>, of<short, 8>,
            of<float, 3>, of<float, 4>, of<double, 3>, mixed, aligned>();
#if WARPWRIGHT_TEST_EVERY_TYPE
  check_all<of<unsigned char, 2>, of<unsigned char, 4>, of<unsigned char, 5>, of<unsigned char, 6>,
            of<short, 3>, of<short, 4>, of<short, 10>>();
  check_all<of<float, 2>, of<float, 5>, of<float, 6>, of<float, 8>, of<float, 12>, of<double, 2>>();
#endif
}
