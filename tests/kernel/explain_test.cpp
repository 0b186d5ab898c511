// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Plans in figures and words. No array is touched, so addresses are made up.
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/explain.hpp>

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
        "1048576 elements in one kernel: 1024 blocks of 256 threads, 1 vector of 4 elements a "
        "thread; reads 8388608 bytes, writes 4194304");
  CHECK(p.explain(3e12) == p.explain() + ", 4.1943 us at 3000 GB/s");
}

TEST_CASE("an array that is off alone is named with the reason") {
  auto const x = ew::in(at<float>(0x1000004), 1000);
  auto const y = ew::in(at<float>(0x2000000), 1000);
  ew::kernel_plan const p = ew::plan(ew::out(at<float>(0x3000000), 1000) = x + y);
  CHECK(!p.array(1).wide);
  CHECK(p.array(2).wide);
  CHECK(
      p.explain() ==
      "1000 elements in one kernel: 8 blocks of 32 threads, 1 vector of 4 elements a thread; reads "
      "8000 bytes, writes 4000\noperand 1 (in) goes element by element: its first vector lies 4 "
      "bytes past a multiple of 16; place all arrays alike");
}

TEST_CASE("arrays that are off alike have a head; rows then go element by element") {
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
  CHECK(words.find("\n4 elements lie outside the vectors, 3 before the first") != words.npos);
  CHECK(words.find(
            "\noperand 2 (row) goes element by element: the vectors do not start with a row") !=
        words.npos);
  CHECK(words.find("operand 3 (col)") != words.npos);
  std::string const odd =
      ew::plan(ew::out(at<float>(0x3000000), 9) = ew::col(at<float>(0x4000000), 3)).explain();
  CHECK(odd.find("its rows are no whole number of vectors of 4 elements") != odd.npos);
}

TEST_CASE("where there are no vectors, no array is said to miss them") {
  std::string const words =
      ew::plan(ew::out(at<float>(0x3000004), 2) =
                   ew::in(at<float>(0x1000004), 2) + ew::in(at<float>(0x2000008), 2))
          .explain();
  CHECK(words.find("element by element") == words.npos);
  CHECK(words.find("2 elements lie outside the vectors") != words.npos);
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

TEST_CASE("no elements, and what run() refuses") {
  CHECK(ew::plan(ew::out(at<float>(0), 0) = 1).explain() == "no elements: nothing is launched");
  CHECK_THROWS_AS(ew::plan(ew::out(at<float>(16), 4) = ew::in(at<float>(32), 3)),
                  std::invalid_argument);
}
