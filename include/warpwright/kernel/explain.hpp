// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernel that run() would launch, in figures and in words. Launches nothing and needs no GPU.
//
//   auto const a = ew::out(y, n) = ew::in(x, n) * 2;
//   std::puts(ew::plan(a).explain().c_str());                      // what is launched, and why
//   std::puts(ew::plan(a, ew::gpus::h100_sxm).explain().c_str());  // and the time on that GPU
#pragma once

#include <warpwright/kernel/detail/plan/tile_summary.hpp>
#include <warpwright/kernel/evaluate.hpp>
#include <warpwright/kernel/gpu_model.hpp>

#include <cstring>
#include <string>

WARPWRIGHT_BEGIN

namespace ew {

namespace detail {
struct plan_builder;
}

/// How run() moves one array; see kernel_plan.
struct array_plan {
  char const* kind = "";       ///< output, in, row, col, device_scalar, philox offset or view
  int number = 0;              ///< from 1: of an output among the outputs, else among the operands
  bool wide = false;           ///< moved by vectors; else element by element
  bool again = false;          ///< an earlier operand reads this array; its bytes are counted there
  bool tiled = false;          ///< a view moved by tiles through shared memory
  bool by_pixels = false;      ///< a view with contiguous channels: a thread reads whole pixels
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
  /// measured, for the expected time; one for each array that is not moved by vectors, with the
  /// reason.
  /// @param bytes_per_second  as for seconds(), instead of the GPU's; 0: the GPU's
  /// @return lines separated by newlines, none behind the last
  /// @throws std::bad_alloc  when host memory runs out
  /// **Threads:** safe. **Capture:** legal; no CUDA call.
  [[nodiscard]] std::string explain(double bytes_per_second = 0) const {
    if (elements_ == 0) return "no elements: nothing is launched";
    std::string words;
    add_launch(words);
    if (fit_.waves != 0) add_occupancy(words);
    if (!(bytes_per_second > 0) && gpu_.is_measured())
      bytes_per_second = gpu_.copy_bytes_per_second;
    if (bytes_per_second > 0) add_time(words, bytes_per_second);
    if (launch_.partition.vectors == 0) return words;
    if (unsigned const edge = launch_.partition.edge) {
      add(words, text{"\n"} + plural(edge, "element") + " in no vector, " + launch_.partition.head +
                     " before the first: one per thread, in a separate block");
    }
    for (int k = 0; k < count_; ++k) {
      array_plan const& a = arrays_[k];
      if (a.wide && !a.tiled && !a.by_pixels) continue;
      add(words, text{"\n"} + name(a) + " is accessed " + access_of(a));
    }
    return words;
  }

 private:
  friend struct detail::plan_builder;
  using text = detail::text;

  static void add(std::string& words, text const& more) { words += more.c_str(); }

  void add_launch(std::string& words) const {
    add(words, plural(elements_, "element") + " in one kernel: " + plural(launch_.blocks, "block") +
                   " of " + launch_.threads + " threads, ");
    if (tiles_.columns != 0) {
      add(words,
          text{"a tile of "} + tiles_.rows + " by " + tiles_.columns + " elements per block");
    } else if (tiles_.pixels != 0) {
      add(words,
          plural(tiles_.pixels, "pixel") + " of " + tiles_.channels + " channels per thread");
    } else if (launch_.partition.vectors == 0) {
      add(words, text{"1 element per thread, as no whole vector of "} + vector_elements_ + " fits");
    } else {
      add(words, plural(static_cast<unsigned>(vectors_per_thread_), "vector") + " of " +
                     plural(static_cast<unsigned>(vector_elements_), "element") + " per thread");
    }
    if (tiles_.blocks == 0) add(words, text{", "} + index_bits() + "-bit indices");
    add(words, text{"; reads "} + read_ + " bytes, writes " + written_ + " bytes");
    bool reads = false;
    bool updates = false;
    for (int k = 0; k < count_; ++k) {
      reads = reads || !is_output(arrays_[k]);
      if (arrays_[k].in_place_of == 0) continue;
      updates = true;
      add(words, text{"; "} + name(arrays_[k]) + " is output " + arrays_[k].in_place_of +
                     ", updated in place");
    }
    if (reads && !updates) words += "; no array is both read and written";
  }
  void add_occupancy(std::string& words) const {
    double const percent = fit_.last_wave_filled * 100;
    add(words, text{"\non "} + gpu_.name + ", " + gpu_.multiprocessors + " multiprocessors with " +
                   plural(static_cast<unsigned>(fit_.resident_blocks), "resident block") +
                   " each: " + plural(fit_.waves, "wave") + (fit_.waves == 1 ? "," : ", the last"));
    add(words, percent < 1 ? text{" less than 1"} : text{" "} + static_cast<int>(percent));
    words += " % full";
    if (std::uint64_t const bytes = bytes_in_flight()) {
      double const kib = static_cast<double>(bytes) / gpu_.multiprocessors / 1024;
      add(words, text{"; "} + rounded(kib) + " KiB of loads in flight on each");
    }
  }
  void add_time(std::string& words, double bytes_per_second) const {
    std::uint64_t const bytes = read_ + written_;
    double const launch = gpu_.launch_seconds;
    double const memory = seconds(bytes_per_second);
    if (memory <= launch) {
      return add(words, text{"\nabout "} + time(launch) + ": the launch, which takes longer than " +
                            bytes + " bytes");
    }
    add(words, text{"\nabout "} + time(memory) + ": memory, " + bytes + " bytes at " +
                   bytes_per_second * 1e-9 + " GB/s");
    if (launch == 0) words += ", without the launch";
    std::uint64_t const l2_mib = gpu_.l2_bytes >> 20U;
    if (bytes <= gpu_.l2_bytes) {
      add(words, text{"; less if they are in the L2 cache of "} + l2_mib + " MiB");
    }
  }

  // How an array is accessed that does not simply go by vectors, and why.
  [[nodiscard]] text access_of(array_plan const& a) const {
    if (a.tiled) {
      return text{"by tiles through shared memory: its neighbours are "} + a.step +
             " elements apart, and its contiguous dimension is another one";
    }
    if (a.by_pixels) return "by whole pixels, whose channels are contiguous";
    return text{"element by element: "} + obstacle(a);
  }
  // What keeps an array from being moved by vectors.
  [[nodiscard]] text obstacle(array_plan const& a) const {
    unsigned const head = launch_.partition.head;
    bool const scalar_tiles = tiles_.blocks != 0 && vector_elements_ == 1;
    if (!is_output(a) || a.run == 0) {
      if (launch_.partition.scalar_only) return "as a strided output";
      if (scalar_tiles && tiles_.pixels == 0) {
        return "the output's rows do not all start and end at a vector boundary";
      }
      if (scalar_tiles && tiles_.pitch == tiles_.channels) {
        return "the pixels of an image are not a whole number of vectors, or are misaligned";
      }
      if (scalar_tiles) {
        return text{"the view has "} + tiles_.channels + " of the " + tiles_.pitch +
               " channels of a pixel, and vectors would also read the others";
      }
    }
    bool const rows = std::strcmp(a.kind, "row") == 0 || std::strcmp(a.kind, "col") == 0;
    bool const repeats = a.run != 0 ? a.step == 0 : rows;
    if (repeats && head != 0) {
      return "the first vector starts inside a row of it, because the other arrays are misaligned";
    }
    if (a.run != 0 && a.step == 0) {
      return text{"each element is used for "} + a.run +
             " neighbours, not a whole number of vectors of " + vector_elements_;
    }
    if (a.run != 0 && a.step != 1) return text{"its neighbours are "} + a.step + " elements apart";
    if (a.run != 0) {
      return text{"its runs of "} + a.run +
             " elements do not all start and end at a vector boundary, a multiple of " +
             a.aligned_bytes + " bytes";
    }
    std::uint64_t const offset =
        (a.address + std::uint64_t{head} * a.element_bytes) % a.aligned_bytes;
    if (std::strcmp(a.kind, "col") != 0 && offset != 0) {
      return text{"its first vector is "} + offset + " bytes past a multiple of " +
             a.aligned_bytes + (repeats ? "" : "; give all arrays the same alignment");
    }
    return text{"its rows are not a whole number of vectors of "} + vector_elements_ + " elements";
  }

  static text plural(std::uint64_t count, char const* noun) {
    return text{count} + " " + noun + (count == 1 ? "" : "s");
  }
  static bool is_output(array_plan const& a) { return std::strcmp(a.kind, "output") == 0; }
  static text name(array_plan const& a) {
    if (is_output(a)) return text{"output "} + a.number;
    return text{"operand "} + a.number + " (" + a.kind + ")";
  }
  // Two digits, or all before the point: an estimate has no more.
  static double rounded(double value) {
    double step = 1;
    while (step > 1e-9 && value < 10 * step) step /= 10;
    return static_cast<double>(static_cast<std::uint64_t>(value / step + 0.5)) * step;
  }
  static text time(double seconds) {
    if (seconds >= 1) return text{rounded(seconds)} + " s";
    if (seconds >= 1e-3) return text{rounded(seconds * 1e3)} + " ms";
    return text{rounded(seconds * 1e6)} + " us";
  }

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

  // @param all          the operands of each assignment, its output first
  // @param counts       the number of operands of each assignment
  // @param vector       elements of a vector
  // @param vectors      vectors per thread
  void fill(operand const* all, int const* counts, int assignments, int vector, int vectors,
            launch_plan const& launch, tile_summary const& tiles) {
    plan.elements_ = all[0].count;
    plan.vector_elements_ = vector;
    plan.vectors_per_thread_ = vectors;
    if (plan.elements_ == 0) return;
    plan.launch_ = launch;
    plan.tiles_ = tiles;
    if (launch.partition.scalar_only) plan.vector_elements_ = 1;
    if (launch.partition.single_vectors) plan.vectors_per_thread_ = 1;
    if (tiles.blocks != 0) {
      plan.launch_ = {};
      plan.launch_.threads = tiles.threads;
      plan.launch_.blocks = tiles.blocks;
      plan.launch_.partition.vectors = plan.elements_ / static_cast<unsigned>(vector);
      plan.launch_.partition.wide = tiles.vectors || vector == 1 ? tiles.wide : 0;
      plan.vectors_per_thread_ = 1;
      if (!tiles.vectors) plan.vector_elements_ = 1;
    }
    int operands = 0;
    for (int o = 0, k = 0; o < assignments; ++o) {
      for (int const output = k; k < output + counts[o]; ++k) {
        if (all[k].kind == access_pattern::absent) continue;
        array_plan a = array(all[k], k, k == output);
        a.number = k == output ? o + 1 : ++operands;
        for (int p = 0, other = 0; p < assignments && k != output; other += counts[p++]) {
          if (in_place(all[k], all[other])) a.in_place_of = p + 1;
        }
        for (int j = 0; j < plan.count_ && k != output; ++j) {
          array_plan const& b = plan.arrays_[j];
          bool const contains = b.address == a.address && b.bytes >= a.bytes;
          a.again = a.again || (contains && !kernel_plan::is_output(b));
        }
        if (!a.again) (k == output ? plan.written_ : plan.read_) += a.bytes;
        if (!a.again && k != output) add_loads(all[k]);
        plan.arrays_[plan.count_++] = a;
      }
    }
  }

  void place_on(gpu_model const& gpu, source_location where) {
    auto const refuse = [&](text const& problem) {
      warpwright::detail::throw_invalid_argument(
          text{"ew::plan: the GPU model "} + gpu.name + " " + problem, where);
    };
    if (gpu.multiprocessors < 1 || gpu.threads_per_multiprocessor < 1 ||
        gpu.blocks_per_multiprocessor < 1) {
      refuse(text{"has "} + gpu.multiprocessors + " multiprocessors of " +
             gpu.threads_per_multiprocessor + " threads and " + gpu.blocks_per_multiprocessor +
             " blocks; set all three to at least 1, or start from gpu_model::of() or ew::gpus");
    }
    if (!(gpu.copy_bytes_per_second >= 0) || !(gpu.launch_seconds >= 0)) {
      refuse(text{"has a bandwidth of "} + gpu.copy_bytes_per_second +
             " bytes per second and a launch time of " + gpu.launch_seconds +
             " seconds; set measured figures above 0, or 0 for unknown");
    }
    plan.gpu_ = gpu;
    plan.fit_ = fit_grid(plan.blocks(), plan.threads(), gpu);
  }

 private:
  [[nodiscard]] array_plan array(operand const& o, int k, bool is_output) const {
    char const* const names[] = {"in", "row", "col", "device_scalar", "philox offset", "view"};
    bool const view = o.kind == access_pattern::view;
    bool const tiled = plan.tiles_.blocks != 0 && k == plan.tiles_.view;
    array_plan a;
    a.kind = o.shaped ? "view" : is_output ? "output" : names[static_cast<unsigned char>(o.kind)];
    a.wide = (plan.launch_.partition.wide >> static_cast<unsigned>(k) & 1U) != 0;
    a.tiled = tiled && plan.tiles_.pixels == 0;
    a.by_pixels = tiled && plan.tiles_.pixels != 0;
    a.element_bytes = o.element_bytes;
    a.aligned_bytes = o.aligned_bytes;
    a.address = o.address;
    a.bytes = view ? o.touched : span_bytes(o, plan.elements_);
    if (view) {
      a.step = o.step;
      a.run = o.run;
    }
    return a;
  }
  void add_loads(operand const& o) {
    bool const repeats =
        o.kind == access_pattern::view ? o.step == 0 : o.kind != access_pattern::elements;
    if (repeats || plan.tiles_.blocks != 0) return;
    bool const vectors = plan.launch_.partition.vectors != 0;
    int const elements = vectors ? plan.vector_elements_ * plan.vectors_per_thread_ : 1;
    plan.bytes_in_flight_ += o.element_bytes * static_cast<unsigned>(elements);
  }
};

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

template <class... A>
kernel_plan plan_assignments(source_location where, A const&... a) {
  using parts = fused<A...>;
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
  plan_builder builder;
  builder.fill(all, parts::counts, parts::types.assignments, parts::vector,
               launch.partition.scalar_only ? parts::scalars_per_thread : parts::vectors, launch,
               tiles);
  return builder.plan;
}

template <class T, class E>
kernel_plan plan_any(source_location where, assignment<T, E> const& a) {
  return plan_assignments(where, a);
}
template <class T, int Rank, class E>
kernel_plan plan_any(source_location where, strided_assignment<T, Rank, E> const& a) {
  return plan_assignments(where, a.in_memory_order());
}
template <class... A>
kernel_plan plan_any(source_location where, assignments<A...> const& all) {
  return detail::apply(all.each, [&](auto const&... a) { return plan_assignments(where, a...); });
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE

template <class A>
inline constexpr bool is_planned = is_assignment<A>;
template <class... A>
inline constexpr bool is_planned<assignments<A...>> = true;

}  // namespace detail

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// Plans the kernel that run() would launch on a GPU; it is the same on every GPU.
/// @param a  as for run(): an assignment, or several in tie(); no array is accessed
/// @return the plan, without waves and times
/// @throws std::invalid_argument  as run() does, except for more elements than a grid can hold
/// **Threads:** any. **Capture:** legal; no CUDA call.
template <class A, class = std::enable_if_t<detail::is_planned<A>>>
[[nodiscard]] kernel_plan plan(A const& a, source_location where = source_location::current()) {
  return detail::plan_any(where, a);
}

/// Plans the kernel that run() would launch, and how it fills one GPU and how long it takes there.
/// @param a    as for run(): an assignment, or several in tie(); no array is accessed
/// @param gpu  one of ew::gpus, gpu_model::of(device), or your own figures
/// @return the plan; times only where `gpu` is measured
/// @throws std::invalid_argument  as above; for a GPU without multiprocessors, resident threads or
///   resident blocks; for a bandwidth or launch time that is negative or NaN
/// **Threads:** any. **Capture:** legal; no CUDA call.
template <class A, class = std::enable_if_t<detail::is_planned<A>>>
[[nodiscard]] kernel_plan plan(A const& a, gpu_model const& gpu,
                               source_location where = source_location::current()) {
  detail::plan_builder builder{detail::plan_any(where, a)};
  builder.place_on(gpu, where);
  return builder.plan;
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew

WARPWRIGHT_END
