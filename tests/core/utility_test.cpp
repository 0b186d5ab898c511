// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// core/detail: array, function_ref, string_builder and clock_ref.
#include "support/catch.hpp"

#include <warpwright/core/detail/clock.hpp>
#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/detail/function_ref.hpp>
#include <warpwright/core/detail/padding.hpp>
#include <warpwright/core/detail/text/string_builder.hpp>

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

namespace detail = warpwright::detail;

namespace {

int apply(detail::function_ref<int(int)> function, int value) { return function(value); }

struct move_only {
  explicit move_only(int v) : value{v} {}
  move_only(move_only&&) = default;
  move_only& operator=(move_only&&) = default;
  int value;
};

// An overloaded operator&, which function_ref must not call.
struct odd_address {
  int operator()(int value) const { return value + bias; }
  odd_address* operator&() const = delete;  // NOLINT(google-runtime-operator)
  int bias = 0;
};

struct plain {
  std::uint32_t a, b;
};
struct holed {
  char a;
  std::uint32_t b;
};
struct base {
  base() {}  // so that a derived class uses its padding
  std::uint32_t a;
  char b;
};
struct derived : base {
  char in_padding_of_base;
};
template <class T, int Count>
struct behind {  // seven bytes ahead of `last`, behind an array
  T array[Count];
  char c;
  double last;
};

// The bytes of T that clear_padding() overwrites, as one character each.
template <class T>
std::string cleared() {
  alignas(T) unsigned char bytes[sizeof(T)];
  std::memset(bytes, 0xFF, sizeof bytes);
  detail::clear_padding(reinterpret_cast<T&>(bytes));
  std::string all;
  for (unsigned char const byte : bytes) all += byte == 0 ? '-' : 'x';
  return all;
}
std::string times(int count, std::string const& text) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

// A test's clock: the context is the time.
std::uint64_t read_time(void* time) noexcept { return *static_cast<std::uint64_t const*>(time); }

}  // namespace

TEST_CASE("function_ref calls the object itself, not a copy", "[core][function_ref]") {
  int calls = 0;
  auto count = [&calls, own = 0](int value) mutable {
    calls = ++own;
    return 2 * value;
  };
  CHECK(apply(count, 21) == 42);
  CHECK(apply(count, 4) == 8);
  CHECK(calls == 2);
  CHECK(apply([](int value) { return -value; }, 3) == -3);  // a temporary lives through the call
}

TEST_CASE("function_ref calls const objects and ignores operator&", "[core][function_ref]") {
  odd_address const callable{5};
  CHECK(apply(callable, 1) == 6);
}

TEST_CASE("function_ref forwards references, move-only arguments and exceptions",
          "[core][function_ref]") {
  int target = 0;
  auto const assign = [](int& to) { to = 9; };
  detail::function_ref<void(int&)> const set = assign;
  set(target);
  CHECK(target == 9);
  auto const take = [](move_only m) { return m.value; };
  detail::function_ref<int(move_only)> const taken = take;
  CHECK(taken(move_only{7}) == 7);
  auto const fail = [](int) -> int { throw std::runtime_error{"thrown"}; };
  CHECK_THROWS_WITH(apply(fail, 0), contains("thrown"));
}

TEST_CASE("a copy of a function_ref refers to the same object", "[core][function_ref]") {
  int calls = 0;
  auto count = [&calls](int value) {
    ++calls;
    return value;
  };
  detail::function_ref<int(int)> first = count;
  detail::function_ref<int(int)> second = first;  // not a reference to the first
  first = [](int) { return 0; };
  CHECK(second(5) == 5);
  CHECK(calls == 1);
}

TEST_CASE("an array appends a copy of one of its own elements while it grows", "[core][array]") {
  detail::array<std::uint64_t> numbers;
  numbers.push_back(17);
  while (numbers.size() < 10000) numbers.push_back(numbers.front());
  CHECK(numbers.capacity() >= 10000);
  bool same = true;
  for (std::uint64_t const number : numbers) same = same && number == 17;
  CHECK(same);
}

TEST_CASE("string_builder appends text and numbers", "[core][string_builder]") {
  detail::string_builder built =
      "n = " + detail::string_builder{std::size_t{18446744073709551615U}};
  built += ',';
  built += detail::string_builder{-3} + std::string(2000, 'x');
  CHECK(built.size() == 4 + 20 + 1 + 2 + 2000);
  CHECK(built.str().substr(0, 28) == "n = 18446744073709551615,-3x");
  std::string const& converted = built;
  CHECK(&converted == &built.str());
  built.clear();
  CHECK(built.empty());
}

TEST_CASE("numbers are formatted", "[core][string_builder]") {
  CHECK(detail::format_number("%.2f s", 1.25).str() == "1.25 s");
  CHECK(detail::format_percent(0.625).str() == "62.5 %");
  CHECK(detail::format_percent(1.0).str() == "100 %");
}

TEST_CASE("the default clock is steady and advances", "[core][clock]") {
  detail::clock_ref const clock;
  std::uint64_t const begin = clock.now();
  std::uint64_t last = begin;
  while (last == begin) {
    std::uint64_t const now = clock.now();
    REQUIRE(now >= last);
    last = now;
  }
}

TEST_CASE("a clock is replaced by a function and its context", "[core][clock]") {
  std::uint64_t time = 17;
  detail::clock_ref const clock{read_time, &time};
  CHECK(clock.now() == 17);
  time += 1000;
  CHECK(clock.now() == 1017);
  detail::clock_ref copy;
  copy = clock;
  time = std::uint64_t{1} << 63U;
  CHECK(copy.now() == std::uint64_t{1} << 63U);
}

TEST_CASE("clear_padding overwrites all padding and no member", "[core][padding]") {
  if (!WARPWRIGHT_CLEARS_PADDING) return;  // this compiler cannot
  std::string const end = "x-------xxxxxxxx";
  CHECK(cleared<double>() == "xxxxxxxx");
  CHECK(cleared<plain>() == "xxxxxxxx");
  CHECK(cleared<holed>() == "x---xxxx");
  CHECK(cleared<derived>() == "xxxxxx--");
  CHECK(cleared<behind<char, 8>>() == times(8, "x") + end);
  CHECK(cleared<behind<plain, 2>>() == times(2, "xxxxxxxx") + end);
  CHECK(cleared<behind<plain, 9>>() == times(9, "xxxxxxxx") + end);
  CHECK(cleared<behind<holed, 9>>() == times(9, "x---xxxx") + end);
  CHECK(cleared<behind<behind<plain, 9>, 3>>() == times(3, times(9, "xxxxxxxx") + end) + end);
  CHECK(cleared<behind<behind<holed, 20>, 40>>() == times(40, times(20, "x---xxxx") + end) + end);
  CHECK(cleared<behind<plain[3], 1000>>() == times(3000, "xxxxxxxx") + end);
}
