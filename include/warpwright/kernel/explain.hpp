// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernel that run() would launch, in figures and in words. Launches nothing and needs no GPU.
//
//   auto const a = ew::out(y, n) = ew::in(x, n) * 2;
//   std::puts(ew::plan(a).explain().c_str());                      // what is launched, and why
//   std::puts(ew::plan(a, ew::gpus::h100_sxm).explain().c_str());  // and the time on that GPU
#pragma once

#include <warpwright/core/gpu_model.hpp>
#include <warpwright/kernel/detail/plan/elementwise_plan.hpp>
#include <warpwright/kernel/evaluate.hpp>

#include <string>

WARPWRIGHT_BEGIN

namespace ew {

/// A plan gives times only where copy_bytes_per_second and launch_seconds are set, as measured
/// there.
using warpwright::gpu_model;
namespace gpus = warpwright::gpus;

using warpwright::grid_fit;

/// Computes how a grid fills a GPU by its threads and blocks. Registers and shared memory are not
/// counted: where they let fewer blocks be resident, there are more waves.
/// @param blocks   of the grid
/// @param threads  of each block, 1 to 1,024
/// @param gpu      as for plan()
/// @return the fit; no waves for no blocks
[[nodiscard]] constexpr grid_fit fit_grid(std::uint64_t blocks, unsigned threads,
                                          gpu_model const& gpu) noexcept {
  if (threads == 0) return {};
  int const by_threads = gpu.threads_per_multiprocessor / static_cast<int>(threads);
  return warpwright::fit_grid(
      blocks,
      by_threads < gpu.blocks_per_multiprocessor ? by_threads : gpu.blocks_per_multiprocessor,
      gpu.multiprocessors);
}

namespace detail {
struct plan_builder;
class plan_text;
}  // namespace detail

/// How run() moves one array; see kernel_plan.
struct array_plan {
  char const* kind = "";       ///< output, in, row, col, device_scalar, philox offset, view, table
  int number = 0;              ///< from 1: of an output among the outputs, else among the operands
  bool wide = false;           ///< moved by vectors; else element by element
  bool again = false;          ///< an earlier operand reads this array; its bytes are counted there
  bool tiled = false;          ///< a view moved by tiles through shared memory
  bool by_pixels = false;      ///< a view with contiguous channels: a thread reads whole pixels
  bool by_index = false;       ///< each element is where an index says
  int in_place_of = 0;         ///< the number of the output that is the same array; 0: none is
  unsigned element_bytes = 0;  ///< bytes of one element
  unsigned aligned_bytes = 0;  ///< the alignment that a vector access needs
  std::uint64_t address = 0;   ///< of the first byte
  std::uint64_t bytes = 0;     ///< all that the kernel accesses
  std::int64_t step =
      1;  ///< of a view or strided output: the innermost dimension's stride, elements
  std::uint64_t run = 0;  ///< and its extent, if the array has gaps or repeats
};

/// What limits the expected time of a kernel.
enum class time_bound : unsigned char {
  unknown,  ///< no measured GPU was given, or nothing is launched
  launch,   ///< the launch takes longer than the bytes
  memory    ///< the bytes take longer than the launch
};

/// The kernel that run() would launch on a GPU: what plan() returns.
class kernel_plan {
 public:
  /// @return elements of each output
  [[nodiscard]] std::uint64_t elements() const noexcept { return elements_; }
  /// @return elements of a vector: the widest arrays move 16 bytes at a time, narrower ones fewer
  [[nodiscard]] int vector_elements() const noexcept { return vector_elements_; }
  /// @return vectors that a thread loads before it uses the first
  [[nodiscard]] int vectors_per_thread() const noexcept { return vectors_per_thread_; }
  /// @return threads per block
  [[nodiscard]] unsigned threads() const noexcept { return launch_.threads; }
  /// @return blocks; 0: nothing is launched
  [[nodiscard]] std::uint64_t blocks() const noexcept { return launch_.blocks; }
  /// @return elements before the first vector, moved one per thread
  [[nodiscard]] unsigned head_elements() const noexcept { return launch_.partition.head; }
  /// @return elements in no vector, before the first or behind the last, moved one per thread
  [[nodiscard]] unsigned edge_elements() const noexcept { return launch_.partition.edge; }
  /// @return width of the kernel's indices in bits: 64 for 2^31 vectors or more, for elements in no
  ///   vector, for an array moved element by element, and for tiles that start anywhere; else 32
  [[nodiscard]] int index_bits() const noexcept { return launch_.partition.fast_path ? 32 : 64; }
  /// @return elements of a tile along the output's innermost dimension; 0: there are no tiles
  [[nodiscard]] unsigned tile_columns() const noexcept { return tiles_.columns; }
  /// @return elements of a tile along the view's contiguous dimension
  [[nodiscard]] unsigned tile_rows() const noexcept { return tiles_.rows; }
  /// @return pixels that a thread reads whole and writes channel by channel; 0: not by pixels
  [[nodiscard]] unsigned pixels_per_thread() const noexcept { return tiles_.pixels; }
  /// @return bytes read of all arrays; an array that occurs several times counts once
  [[nodiscard]] std::uint64_t bytes_read() const noexcept { return read_; }
  /// @return bytes written
  [[nodiscard]] std::uint64_t bytes_written() const noexcept { return written_; }
  /// @return arrays in the order in which they are written, each output before its operands
  [[nodiscard]] int arrays() const noexcept { return count_; }
  /// @param k  in [0, arrays())
  [[nodiscard]] array_plan const& array(int k) const noexcept { return arrays_[k]; }
  /// @return bytes that a thread loads before it uses the first, of arrays that do not repeat; 0
  ///   where it reads none, and for tiles and pixels, for which it is not computed
  [[nodiscard]] unsigned bytes_in_flight_per_thread() const noexcept { return bytes_in_flight_; }

  /// Computes the time of the bytes at a bandwidth, without the launch.
  /// @param bytes_per_second  of a device-to-device copy, read and written bytes together: about
  ///   3.0e12 on an H100 SXM
  /// @return seconds
  [[nodiscard]] double seconds(double bytes_per_second) const noexcept {
    return static_cast<double>(read_ + written_) / bytes_per_second;
  }

  /// @return the GPU given to plan(); one without multiprocessors if none was given
  [[nodiscard]] gpu_model const& gpu() const noexcept { return gpu_; }
  /// @return how threads and blocks fill that GPU; no waves without a GPU
  [[nodiscard]] grid_fit const& fit() const noexcept { return fit_; }
  /// @return bytes of loads in flight on that GPU at a time, at most; 0 without a GPU
  [[nodiscard]] std::uint64_t bytes_in_flight() const noexcept {
    std::uint64_t const all = static_cast<std::uint64_t>(fit_.resident_blocks) *
                              static_cast<std::uint64_t>(gpu_.multiprocessors);
    std::uint64_t const resident = launch_.blocks < all ? launch_.blocks : all;
    std::uint64_t const bytes = resident * launch_.threads * bytes_in_flight_;
    return bytes < read_ ? bytes : read_;
  }
  /// Computes the time from the start of this kernel to that of the next, in a stream of many such
  /// kernels: the launch or the bytes at the copy's bandwidth, whichever takes longer. All bytes
  /// count as coming from device memory; those still in L2 are faster.
  /// @return seconds; 0 where gpu().is_measured() is false, or nothing is launched
  [[nodiscard]] double expected_seconds() const noexcept {
    if (bound() == time_bound::unknown) return 0;
    return bound() == time_bound::launch ? gpu_.launch_seconds
                                         : seconds(gpu_.copy_bytes_per_second);
  }
  /// @return which of the two limits expected_seconds()
  [[nodiscard]] time_bound bound() const noexcept {
    if (!gpu_.is_measured() || elements_ == 0) return time_bound::unknown;
    bool const memory = seconds(gpu_.copy_bytes_per_second) > gpu_.launch_seconds;
    return memory ? time_bound::memory : time_bound::launch;
  }

  /// Prints the plan: one line for the launch; one each for how it fills the GPU and, if that was
  /// measured, for the expected time; one for each array not moved by vectors, and why.
  /// @param bytes_per_second  as for seconds(), instead of the GPU's; 0: the GPU's
  /// @return lines separated by newlines, none behind the last
  /// @throws std::bad_alloc  when host memory runs out
  /// **Threads:** safe. **Capture:** legal; no CUDA call.
  [[nodiscard]] std::string explain(double bytes_per_second = 0) const;

 private:
  friend struct detail::plan_builder;
  friend class detail::plan_text;

  std::uint64_t elements_ = 0;
  int vector_elements_ = 0;
  int vectors_per_thread_ = 0;
  detail::launch_plan launch_;
  detail::tile_summary tiles_;
  std::uint64_t read_ = 0;
  std::uint64_t written_ = 0;
  int count_ = 0;
  array_plan arrays_[64];
  unsigned bytes_in_flight_ = 0;
  gpu_model gpu_;
  grid_fit fit_;
};

namespace detail {

struct plan_builder {
  kernel_plan plan;

  /// @param operands  of the assignments, as elementwise_types counts them
  plan_builder(elementwise_types const& types, operand const* operands, launch_plan const& launch,
               tile_summary const& tiles);
  /// @throws std::invalid_argument  for a GPU that cannot be
  void place_on(gpu_model const& gpu, source_location where);

 private:
  [[nodiscard]] array_plan array(operand const& o, int k, bool is_output) const;
  void add_loads(operand const& o);
};

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

template <class A>
plan_builder plan_any(source_location where, A const& assignments) {
  return with_assignments(assignments, [&](auto const&... a) {
    using parts = fused<std::decay_t<decltype(a)>...>;
    operand all[parts::operands];
    parts::describe(all, where, a...);
    launch_plan launch;
    tile_summary tiles;
    if (all[0].count != 0) {
      launch = plan_operands(parts::types, all);
      if constexpr (parts::views) {
        tiles = tile_evaluation<parts>::summarize(parts{a...}, all);
      }
    }
    return plan_builder{parts::types, all, launch, tiles};
  });
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// Plans the kernel that run() would launch on a GPU; it is the same on every GPU.
/// @param a  as for run(): an assignment, or several in tie(); no array is accessed
/// @return the plan, without waves and times
/// @throws std::invalid_argument  as run() does, except for more elements than a grid can hold
/// **Threads:** any. **Capture:** legal; no CUDA call.
template <class A, class = std::enable_if_t<detail::is_run<A>>>
[[nodiscard]] kernel_plan plan(A const& a, source_location where = source_location::current()) {
  return detail::plan_any(where, a).plan;
}

/// As above, and how the kernel fills one GPU and how long it takes there.
/// @param gpu  one of ew::gpus, gpu_model::of(device), or your own figures
/// @return the plan; times only where `gpu` is measured
/// @throws std::invalid_argument  as above; for a GPU without multiprocessors, resident threads or
///   resident blocks; for a bandwidth or launch time that is negative or NaN
template <class A, class = std::enable_if_t<detail::is_run<A>>>
[[nodiscard]] kernel_plan plan(A const& a, gpu_model const& gpu,
                               source_location where = source_location::current()) {
  detail::plan_builder result = detail::plan_any(where, a);
  result.place_on(gpu, where);
  return result.plan;
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/kernel/detail/elementwise/explain_definitions.hpp>
#endif
