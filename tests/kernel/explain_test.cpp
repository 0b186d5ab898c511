// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Plans in figures and words. No array is accessed, so that addresses are invented.
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/explain.hpp>
#include <warpwright/kernel/views.hpp>

#include <stdexcept>

#include "support/catch.hpp"

namespace ew = warpwright::ew;

namespace {

template <class T>
T* at(std::uintptr_t address) {
  return reinterpret_cast<T*>(address);
}

}  // namespace

TEST_CASE("a plan of aligned arrays") {
  std::size_t const n = std::size_t{1} << 20U;
  auto const x = ew::in(at<float>(0x1000000), n);
  auto const y = ew::in(at<float>(0x2000000), n);
  ew::kernel_plan const p = ew::plan(ew::out(at<float>(0x3000000), n) = x * 2 + y);
  CHECK(p.elements() == n);
  CHECK(p.vector_elements() == 4);
  CHECK(p.vectors_per_thread() == 1);
  CHECK(p.threads() == 256);
  CHECK(p.blocks() == n / 4 / 256);
  CHECK(p.head_elements() == 0);
  CHECK(p.edge_elements() == 0);
  CHECK(p.bytes_read() == 2 * n * 4);
  CHECK(p.bytes_written() == n * 4);
  CHECK(p.arrays() == 3);
  CHECK((p.array(0).wide && p.array(1).wide && p.array(2).wide));
  CHECK(p.seconds(3e12) == 12.0 * static_cast<double>(n) / 3e12);
  CHECK(p.explain() ==
        "1048576 elements in one kernel: 1024 blocks of 256 threads, 1 vector of 4 elements per "
        "thread, 32-bit indices; reads 8388608 bytes, writes 4194304 bytes; no array is both read "
        "and written");
  CHECK(p.explain(3e12) == p.explain() +
                               "\nabout 4.2 us: memory, 12582912 bytes at 3000 GB/s, without the "
                               "launch");
  CHECK(p.index_bits() == 32);
  CHECK(p.bytes_in_flight_per_thread() == 32);
}

TEST_CASE("narrow loads of very many elements") {
  auto const plan_of = [](std::size_t n) {
    return ew::plan(ew::out(at<float>(0x10000000), n) =
                        ew::in(at<signed char>(0x1000000), n) * 2.0F);
  };
  std::size_t const many = std::size_t{1} << 24U;
  CHECK(plan_of(many).vectors_per_thread() == 4);
  CHECK(plan_of(many).blocks() == many / 16 / 256);
}

TEST_CASE("one misaligned array is named with the reason") {
  auto const x = ew::in(at<float>(0x1000004), 1000);
  auto const y = ew::in(at<float>(0x2000000), 1000);
  ew::kernel_plan const p = ew::plan(ew::out(at<float>(0x3000000), 1000) = x + y);
  CHECK(!p.array(1).wide);
  CHECK(p.array(2).wide);
  CHECK(
      p.explain() ==
      "1000 elements in one kernel: 8 blocks of 32 threads, 1 vector of 4 elements per thread, "
      "64-bit indices; reads 8000 bytes, writes 4000 bytes; no array is both read and written\n"
      "operand 1 (in) is accessed element by element: its first vector is 4 bytes past a multiple "
      "of 16; give all arrays the same alignment");
}

TEST_CASE("equally misaligned arrays have a head; rows are then accessed by elements") {
  std::size_t const n = 4 * 256;
  ew::kernel_plan const p =
      ew::plan(ew::out(at<float>(0x3000004), n) = ew::in(at<float>(0x1000004), n) +
                                                  ew::row(at<float>(0x2000000), 256) +
                                                  ew::col(at<float>(0x4000000), 256));
  CHECK(p.head_elements() == 3);
  CHECK(p.edge_elements() == 4);
  CHECK((p.array(0).wide && p.array(1).wide && !p.array(2).wide && !p.array(3).wide));
  CHECK(p.bytes_read() == n * 4 + 256 * 4 + 4 * 4);
  std::string const words = p.explain();
  CHECK(words.find("\n4 elements in no vector, 3 before the first") != words.npos);
  CHECK(words.find("\noperand 2 (row) is accessed element by element: the first vector starts "
                   "inside a row") != words.npos);
  CHECK(words.find("operand 3 (col)") != words.npos);
  std::string const odd =
      ew::plan(ew::out(at<float>(0x3000000), 9) = ew::col(at<float>(0x4000000), 3)).explain();
  CHECK(odd.find("its rows are not a whole number of vectors of 4 elements") != odd.npos);
}

TEST_CASE("a view that repeats does not decide where the vectors start") {
  std::size_t const n = 64 * 1024;
  auto* const y = at<float>(0x3000004);
  ew::kernel_plan const alone =
      ew::plan(ew::out(y, n) = ew::view(at<float>(0x1000000), {n / 4, std::size_t{4}}, {1, 0}));
  CHECK(alone.head_elements() == 3);
  CHECK(alone.array(0).wide);
  CHECK(alone.explain().find("the first vector starts inside a row of it") != std::string::npos);
  ew::kernel_plan const beside =
      ew::plan(ew::out(y, n) = ew::in(at<float>(0x2000004), n) *
                               ew::view(at<double>(0x1000000), {n / 64, std::size_t{64}}, {1, 0}));
  CHECK((beside.array(0).wide && beside.array(1).wide && !beside.array(2).wide));
}

TEST_CASE("where no whole vector fits, no array is reported as misaligned") {
  std::string const words =
      ew::plan(ew::out(at<float>(0x3000004), 2) =
                   ew::in(at<float>(0x1000004), 2) + ew::in(at<float>(0x2000008), 2))
          .explain();
  CHECK(words ==
        "2 elements in one kernel: 1 block of 32 threads, 1 element per thread, as no whole vector "
        "of 4 fits, 64-bit indices; reads 16 bytes, writes 8 bytes; no array is both read and "
        "written");
}

TEST_CASE("one element") {
  ew::kernel_plan const p =
      ew::plan(ew::out(at<float>(0x3000000), 1) = ew::in(at<float>(0x1000000), 1) * 2);
  CHECK(
      p.explain() ==
      "1 element in one kernel: 1 block of 32 threads, 1 element per thread, as no whole vector of "
      "4 fits, 64-bit indices; reads 4 bytes, writes 4 bytes; no array is both read and written");
  CHECK(p.seconds(3e12) == 8 / 3e12);
  CHECK(p.bound() == ew::time_bound::unknown);
  CHECK(p.expected_seconds() == 0);
}

TEST_CASE("times have two digits") {
  auto const time_of = [](std::size_t n) {
    std::string const words =
        ew::plan(ew::out(at<char>(0x1000000000000), n) = ew::in(at<char>(0x2000000000000), n))
            .explain(2e12);
    std::size_t const from = words.find("\nabout ") + 7;
    return words.substr(from, words.find(':', from) - from);
  };
  CHECK(time_of(10'000'000) == "10 us");
  CHECK(time_of(12'345'678) == "12 us");
  CHECK(time_of(123'456'789) == "123 us");
  CHECK(time_of(1'234'567'890) == "1.2 ms");
  CHECK(time_of(std::size_t{3} << 40U) == "3.3 s");
}

TEST_CASE("operands that are updated in place are named") {
  auto* const x = at<float>(0x1000000);
  auto* const y = at<float>(0x2000000);
  ew::kernel_plan const one = ew::plan(ew::out(x, 8) += ew::in(y, 8));
  CHECK(one.array(1).in_place_of == 1);
  CHECK(one.array(2).in_place_of == 0);
  CHECK(one.explain().find("writes 32 bytes; operand 1 (in) is output 1, updated in place") !=
        std::string::npos);
  CHECK(one.explain().find("no array") == std::string::npos);
  ew::kernel_plan const swapped =
      ew::plan(ew::tie(ew::out(x, 8) = ew::in(y, 8), ew::out(y, 8) = ew::in(x, 8)));
  CHECK(swapped.explain().find("; operand 1 (in) is output 2, updated in place; operand 2 (in) is "
                               "output 1, updated in place") != std::string::npos);
  std::string const filled = ew::plan(ew::out(x, 8) = ew::index()).explain();
  CHECK(filled.find("writes 32 bytes") + 15 == filled.size());
  auto const a = ew::array(x, {64, 64}).sliced(1, 0, 32);
  CHECK(ew::plan(ew::out(a) *= 2).explain().find("operand 1 (view) is output 1") !=
        std::string::npos);
}

TEST_CASE("indices have 32 bits where all vectors and operands allow it") {
  auto const bits = [](std::uintptr_t address, std::size_t n) {
    return ew::plan(ew::out(at<char>(0x1000000000000), n) = ew::in(at<char>(address), n))
        .index_bits();
  };
  CHECK(bits(0x2000000000000, 1U << 20U) == 32);
  CHECK(bits(0x2000000000000, std::size_t{1} << 34U) == 32);  // vectors of 16
  CHECK(bits(0x2000000000000, std::size_t{1} << 35U) == 64);
  CHECK(bits(0x2000000000001, 1U << 20U) == 64);
  CHECK(bits(0x2000000000000, (1U << 20U) + 1) == 64);
}

TEST_CASE("several outputs; an array read twice is counted once") {
  std::size_t const n = 1024;
  auto const x = ew::in(at<float>(0x1000000), n);
  auto const y = ew::in(at<float>(0x2000000), n);
  ew::kernel_plan const p = ew::plan(
      ew::tie(ew::out(at<float>(0x3000000), n) = x + y, ew::out(at<float>(0x2000000), n) = x - y));
  CHECK(p.arrays() == 6);
  CHECK(p.bytes_read() == 2 * n * 4);
  CHECK(p.bytes_written() == 2 * n * 4);
  CHECK(std::string{p.array(3).kind} == "output");
  CHECK(p.array(3).number == 2);
  CHECK(p.array(4).again);
  CHECK(p.array(5).number == 4);
}

TEST_CASE("how views are accessed, and why") {
  float* const y = at<float>(0x40000000);
  float const* const x = at<float>(0x10000000);
  std::size_t const n = 1024 * 1024;
  ew::kernel_plan const turned =
      ew::plan(ew::out(y, n) = ew::view(ew::array(x, {1024, 1024}).permuted({1, 0})) +
                               ew::view(x, {1024, 1024}, {0, 1}));
  CHECK(turned.tile_columns() == 64);
  CHECK(turned.tile_rows() == 64);
  CHECK(turned.blocks() == 256);
  CHECK(turned.threads() == 256);
  CHECK((turned.array(1).tiled && !turned.array(2).tiled && turned.array(2).wide));
  CHECK(turned.bytes_written() == n * 4);
  CHECK(
      turned.explain() ==
      "1048576 elements in one kernel: 256 blocks of 256 threads, a tile of 64 by 64 elements per "
      "block; reads 4194304 bytes, writes 4194304 bytes; no array is both read and written\n"
      "operand 1 (view) is accessed by tiles through shared memory: its neighbours are 1024 "
      "elements apart, and its contiguous dimension is another one");
  CHECK(turned.bytes_in_flight_per_thread() == 0);
  auto const planes = [&](int pixels) {
    return ew::plan(ew::out(y, std::size_t{2} * 3 * static_cast<std::size_t>(pixels)) =
                        ew::view(ew::array(x, {2, pixels, 3}).permuted({0, 2, 1})));
  };
  CHECK(planes(8192).pixels_per_thread() == 4);
  CHECK(
      planes(8192).explain() ==
      "49152 elements in one kernel: 16 blocks of 256 threads, 4 pixels of 3 channels per thread; "
      "reads 196608 bytes, writes 196608 bytes; no array is both read and written\noperand 1 "
      "(view) is accessed by whole pixels, whose channels are contiguous");
  CHECK_THAT(ew::plan(ew::out(y, std::size_t{3} * 8192) =
                          ew::view(ew::array(x, {8192, 4}).sliced(1, 0, 3).permuted({1, 0})))
                 .explain(),
             test_support::contains(
                 "\noutput 1 is accessed element by element: the view has 3 of the 4 channels of a "
                 "pixel, and vectors would also read the others"));
  CHECK(planes(8191).explain().find("\noutput 1 is accessed element by element: the pixels of an "
                                    "image are not a whole number of vectors") !=
        std::string::npos);
  ew::kernel_plan const odd =
      ew::plan(ew::out(y, 1023 * 1024) =
                   ew::view(ew::array(x, {1024, 1023}).permuted({1, 0})) + ew::in(x, 1023 * 1024));
  CHECK(odd.vector_elements() == 4);  // rows of 1,024
  ew::kernel_plan const narrow =
      ew::plan(ew::out(y, 1023 * 1024) =
                   ew::view(ew::array(x, {1023, 1024}).permuted({1, 0})) + ew::in(x, 1023 * 1024));
  CHECK(narrow.vector_elements() == 1);
  CHECK(narrow.explain().find(
            "operand 2 (in) is accessed element by element: the output's rows do not "
            "all start and end at a vector boundary") != std::string::npos);
  auto const words = [&](auto const& view) { return ew::plan(ew::out(y, 4096) = view).explain(); };
  CHECK(words(ew::view(x, {64, 64}, {128, 2}))
            .find("\noperand 1 (view) is accessed element by element: its neighbours are 2 "
                  "elements apart") != std::string::npos);
  CHECK(words(ew::view(x, {2048, 2}, {1, 0}))
            .find("each element is used for 2 neighbours, not a whole number of vectors of 4") !=
        std::string::npos);
  CHECK(words(ew::view(x, {64, 64}, {1, 0})).find("element by element") == std::string::npos);
  CHECK(words(ew::view(x, {64, 64}, {65, 1})).find("its runs of 64 elements do not all start") !=
        std::string::npos);
  CHECK(words(ew::view(x, {64, 64}, {68, 1})).find("operand") == std::string::npos);
  CHECK(ew::plan(ew::out(y, 4096) = ew::view(x, {64, 64}, {1, 0})).bytes_read() == 256);
  CHECK(ew::plan(ew::out(y, 0) = ew::view(x, {0, 64}, {1, 64})).explain() ==
        "no elements: nothing is launched");
}

TEST_CASE("no elements, and what run() refuses") {
  CHECK(ew::plan(ew::out(at<float>(0), 0) = 1).explain() == "no elements: nothing is launched");
  CHECK_THROWS_AS(ew::plan(ew::out(at<float>(16), 4) = ew::in(at<float>(32), 3)),
                  std::invalid_argument);
}
