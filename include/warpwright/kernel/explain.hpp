// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What run() would launch, without launching it: in figures and in words. Needs no GPU.
//
//   std::puts(ew::plan(ew::out(y, n) = ew::in(x, n) * 2).explain(3.0e12).c_str());
#pragma once

#include <warpwright/kernel/evaluate.hpp>

#include <cstring>
#include <string>

WARPWRIGHT_BEGIN

namespace ew {

namespace detail {
struct plan_filler;
}

/// How run() moves one array; see kernel_plan.
struct array_plan {
  char const* kind = "";  ///< output, in, row, col, device_scalar, philox offset or view
  int number = 0;         ///< counted from 1: of an output among the outputs, else among the others
  bool wide = false;      ///< moved by vectors; else element by element
  bool again = false;     ///< the same array as an earlier one read: its bytes are counted there
  bool tiled = false;     ///< a view moved by tiles through shared memory
  unsigned element_bytes = 0;
  unsigned aligned_bytes = 0;  ///< what a vector access of it needs
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  ///< all that the kernel touches of it
  /// of a view or a strided output: elements from one to the next along its innermost dimension
  std::int64_t step = 1;
  std::uint64_t run = 0;  ///< of these: the length of that, where it leaves gaps or repeats
};

/// The kernel that run() would launch on a GPU: what plan() answers.
class kernel_plan {
 public:
  /// @return elements of each output
  [[nodiscard]] std::uint64_t elements() const noexcept { return elements_; }
  /// @return elements that a thread moves at once; arrays of narrower elements in fewer bytes
  [[nodiscard]] int vector_elements() const noexcept { return vector_elements_; }
  /// @return vectors that a thread has under way, all loads of which come before the first use
  [[nodiscard]] int vectors_per_thread() const noexcept { return vectors_per_thread_; }
  /// @return threads a block
  [[nodiscard]] unsigned threads() const noexcept { return launch_.threads; }
  /// @return blocks; 0: nothing is launched
  [[nodiscard]] std::uint64_t blocks() const noexcept { return launch_.blocks; }
  /// @return elements before the first vector, moved one a thread
  [[nodiscard]] unsigned head_elements() const noexcept { return launch_.deal.head; }
  /// @return elements in no vector, those before the first and behind the last, moved one a thread
  [[nodiscard]] unsigned edge_elements() const noexcept { return launch_.deal.edge; }
  /// @return elements of a tile along the output's innermost dimension; 0: there are no tiles
  [[nodiscard]] unsigned tile_columns() const noexcept { return tile_columns_; }
  /// @return elements of a tile along the dimension in which the view's memory runs
  [[nodiscard]] unsigned tile_rows() const noexcept { return tile_rows_; }
  /// @return bytes read of all arrays; one that occurs several times counts once, unless it is read
  ///   further the second time
  [[nodiscard]] std::uint64_t bytes_read() const noexcept { return read_; }
  /// @return bytes written
  [[nodiscard]] std::uint64_t bytes_written() const noexcept { return written_; }
  /// @return arrays in the order in which they are written, each output before what it is assigned
  [[nodiscard]] int arrays() const noexcept { return count_; }
  /// @param k  in [0, arrays())
  [[nodiscard]] array_plan const& array(int k) const noexcept { return arrays_[k]; }

  /// The least time the memory takes: bytes over bandwidth, without the launch.
  /// @param bytes_per_second  what a copy on the device reaches, read and written bytes together:
  ///   some 3.0e12 on an H100 SXM
  /// @return seconds
  [[nodiscard]] double seconds(double bytes_per_second) const noexcept {
    return static_cast<double>(read_ + written_) / bytes_per_second;
  }

  /// Puts the plan into words, a line for the whole and one for each array that is not moved by
  /// vectors, with the reason.
  /// @param bytes_per_second  as for seconds(); 0: no time is told
  /// @return lines separated by newlines, none behind the last
  /// @throws std::bad_alloc  when the host has no memory
  /// **Threads:** safe. **Capture:** legal; no CUDA call.
  [[nodiscard]] std::string explain(double bytes_per_second = 0) const {
    using detail::text;
    if (elements_ == 0) return "no elements: nothing is launched";
    text const dealt =
        tile_columns_ != 0
            ? text{"a tile of "} + tile_rows_ + " by " + tile_columns_ + " elements a block"
            : text{vectors_per_thread_} +
                  (vectors_per_thread_ == 1 ? " vector of " : " vectors of ") + vector_elements_ +
                  (vector_elements_ == 1 ? " element" : " elements") + " a thread";
    std::string words = (text{elements_} + (elements_ == 1 ? " element" : " elements") +
                         " in one kernel: " + launch_.blocks +
                         (launch_.blocks == 1 ? " block of " : " blocks of ") + launch_.threads +
                         " threads, " + dealt + "; reads " + read_ + " bytes, writes " + written_)
                            .c_str();
    if (bytes_per_second > 0) {
      words += (text{", "} + seconds(bytes_per_second) * 1e6 + " us at " + bytes_per_second * 1e-9 +
                " GB/s")
                   .c_str();
    }
    if (launch_.deal.edge != 0) {
      words +=
          (text{"\n"} + launch_.deal.edge +
           (launch_.deal.edge == 1 ? " element lies" : " elements lie") + " outside the vectors, " +
           launch_.deal.head + " before the first, and go one a thread in a block of their own")
              .c_str();
    }
    for (int k = 0; k < count_ && launch_.deal.vectors != 0; ++k) {
      array_plan const& a = arrays_[k];
      if (a.tiled) {
        words +=
            (text{"\n"} + name(a) + " goes by tiles through shared memory: its neighbours lie " +
             a.step + " elements apart, and its memory runs along another dimension")
                .c_str();
      } else if (!a.wide)
        words += (text{"\n"} + name(a) + " goes element by element: " + reason(a)).c_str();
    }
    return words;
  }

 private:
  friend struct detail::plan_filler;

  static detail::text name(array_plan const& a) {
    if (std::strcmp(a.kind, "output") == 0) return detail::text{"output "} + a.number;
    return detail::text{"operand "} + a.number + " (" + a.kind + ")";
  }
  [[nodiscard]] detail::text reason(array_plan const& a) const {
    using detail::text;
    bool const is_output = std::strcmp(a.kind, "output") == 0;
    if (is_output && a.run != 0 && a.step == 1) {
      return text{"its runs of "} + a.run + " elements do not all start and end at a multiple of " +
             a.aligned_bytes + " bytes";
    }
    if (launch_.deal.singly && (!is_output || a.run == 0)) return "as a strided output does";
    if (tile_columns_ != 0 && vector_elements_ == 1 && !(is_output && a.run != 0)) {
      return "the output's rows do not all start and end with a vector";
    }
    if (a.run != 0 && a.step == 0 && launch_.deal.head != 0) {
      return "the vectors do not start with a run of it, as the other arrays are off a boundary";
    }
    if (a.run != 0 && a.step == 0) {
      return text{"one element stands for "} + a.run +
             " neighbours, no whole number of vectors of " + vector_elements_;
    }
    if (a.run != 0 && a.step != 1) {
      return text{"its neighbours lie "} + a.step + " elements apart";
    }
    if (a.run != 0) {
      return text{"its runs of "} + a.run +
             " elements do not all start and end with a vector of the output, at a multiple of "
             "its " +
             "bytes";
    }
    std::uint64_t const head_bytes = std::uint64_t{launch_.deal.head} * a.element_bytes;
    bool const repeats = std::strcmp(a.kind, "row") == 0 || std::strcmp(a.kind, "col") == 0;
    if (repeats && launch_.deal.head != 0) {
      return "the vectors do not start with a row, as the other arrays are off a boundary";
    }
    std::uint64_t const past = (a.address + head_bytes) % a.aligned_bytes;
    if (std::strcmp(a.kind, "col") != 0 && past != 0) {
      return text{"its first vector lies "} + past + " bytes past a multiple of " +
             a.aligned_bytes + (repeats ? "" : "; place all arrays alike");
    }
    return text{"its rows are no whole number of vectors of "} + vector_elements_ + " elements";
  }

  std::uint64_t elements_ = 0;
  int vector_elements_ = 0;
  int vectors_per_thread_ = 0;
  detail::launch_plan launch_;
  unsigned tile_columns_ = 0;
  unsigned tile_rows_ = 0;
  std::uint64_t read_ = 0;
  std::uint64_t written_ = 0;
  int count_ = 0;
  array_plan arrays_[64];
};

namespace detail {

struct plan_filler {
  static kernel_plan fill(operand const* all, int const* counts, int assignments, int vector,
                          int vectors, launch_plan const& launch, tile_summary const& tiles) {
    char const* const names[] = {"in", "row", "col", "device_scalar", "philox offset", "view"};
    kernel_plan plan;
    plan.elements_ = all[0].count;
    plan.vector_elements_ = vector;
    plan.vectors_per_thread_ = vectors;
    int count = 0;
    for (int k = 0; k < assignments; ++k) count += counts[k];
    if (plan.elements_ == 0) return plan;
    plan.launch_ = launch;
    if (launch.deal.singly) plan.vector_elements_ = 1;
    if (tiles.blocks != 0) {
      plan.launch_ = {};
      plan.launch_.threads = tiles.threads;
      plan.launch_.blocks = tiles.blocks;
      plan.launch_.deal.vectors = plan.elements_ / static_cast<unsigned>(vector);
      plan.launch_.deal.wide = tiles.vectors || vector == 1 ? tiles.wide : 0;
      plan.tile_columns_ = tiles.columns;
      plan.tile_rows_ = tiles.rows;
      plan.vectors_per_thread_ = 1;
      if (!tiles.vectors) plan.vector_elements_ = 1;
    }
    int next_output = 0;  // where the next one stands
    int outputs = 0;
    int operands = 0;
    for (int k = 0; k < count; ++k) {
      if (all[k].kind == reach::absent) continue;
      array_plan& a = plan.arrays_[plan.count_];
      bool const is_output = k == next_output;
      if (is_output) next_output += counts[outputs];
      a.kind = is_output ? "output" : names[static_cast<unsigned char>(all[k].kind)];
      a.number = is_output ? ++outputs : ++operands;
      a.wide = (plan.launch_.deal.wide >> static_cast<unsigned>(k) & 1U) != 0;
      a.element_bytes = all[k].element_bytes;
      a.aligned_bytes = all[k].aligned_bytes;
      a.address = all[k].address;
      a.bytes = all[k].kind == reach::view ? all[k].touched : span_bytes(all[k], plan.elements_);
      a.tiled = tiles.blocks != 0 && k == tiles.view;
      if (all[k].shaped) a.kind = "view";
      if (all[k].kind == reach::view) {
        a.step = all[k].step;
        a.run = all[k].run;
      }
      for (int j = 0; j < plan.count_ && !is_output; ++j) {
        array_plan const& b = plan.arrays_[j];
        a.again = a.again || (std::strcmp(b.kind, "output") != 0 && b.address == a.address &&
                              b.bytes >= a.bytes);
      }
      if (!a.again) (is_output ? plan.written_ : plan.read_) += a.bytes;
      ++plan.count_;
    }
    return plan;
  }
};

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

template <class... A>
kernel_plan plan_parts(source_location where, A const&... a) {
  using parts = fused<A...>;
  operand all[parts::operands];
  parts::template describe<parts::vector>(all, where, a...);
  int const counts[] = {part_t<A>::operands...};
  tile_summary tiles;
  if constexpr ((holds_view<decltype(a.expression)> || ...)) {
    if (all[0].count != 0) tiles = summarize_tiles(parts{a...}, all);  // of views.hpp
  }
  launch_plan launch;
  if (all[0].count != 0) launch = parts::deal_out(all, all[0].count);
  return plan_filler::fill(all, counts, static_cast<int>(sizeof...(A)), parts::vector,
                           launch.deal.singly ? parts::singles : parts::vectors, launch, tiles);
}

template <class... A, std::size_t... Index>
kernel_plan plan_each(source_location where, assignments<A...> const& all,
                      std::index_sequence<Index...>) {
  return plan_parts(where, at<Index>(all.each)...);
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// Says what run() would launch on a GPU.
/// @param a  as for run(); the arrays are not touched
/// @return the plan, the same on every GPU and on the host runtime
/// @throws std::invalid_argument  as run() does, but for more elements than a grid can hold
/// **Threads:** any. **Capture:** legal; no CUDA call.
template <class T, class E>
[[nodiscard]] kernel_plan plan(assignment<T, E> const& a,
                               source_location where = source_location::current()) {
  return detail::plan_parts(where, a);
}

/// As above, for an output that is a strided array.
template <class T, int Rank, class E>
[[nodiscard]] kernel_plan plan(strided_assignment<T, Rank, E> const& a,
                               source_location where = source_location::current()) {
  return detail::plan_parts(where, a.in_memory_order());
}

/// As above, for several outputs.
template <class... A>
[[nodiscard]] kernel_plan plan(assignments<A...> const& all,
                               source_location where = source_location::current()) {
  return detail::plan_each(where, all, std::index_sequence_for<A...>{});
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew

WARPWRIGHT_END
