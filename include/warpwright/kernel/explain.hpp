// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What run() would launch, without launching it: in figures and in words. Needs no GPU.
//
//   auto const a = ew::out(y, n) = ew::in(x, n) * 2;
//   std::puts(ew::plan(a).explain().c_str());                      // what is launched, and why
//   std::puts(ew::plan(a, ew::gpus::h100_sxm).explain().c_str());  // and how long it takes there
#pragma once

#include <warpwright/kernel/architecture.hpp>
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
  bool by_pixels = false;  ///< a view whose channels lie side by side: a thread reads whole pixels
  int in_place_of = 0;     ///< the number of the output that is the same array; 0: apart from all
  unsigned element_bytes = 0;
  unsigned aligned_bytes = 0;  ///< what a vector access of it needs
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  ///< all that the kernel touches of it
  /// of a view or a strided output: elements from one to the next along its innermost dimension
  std::int64_t step = 1;
  std::uint64_t run = 0;  ///< of these: the length of that, where it leaves gaps or repeats
};

/// What decides how long a kernel takes, as plan() reckons.
enum class time_bound : unsigned char {
  unknown,  ///< no GPU was given, or nothing is launched
  launch,   ///< it ends before the next could start
  memory    ///< its bytes take longer than that
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
  /// @return the bits in which the kernel counts: 32, or 64 where there are too many elements for
  ///   that, some are in no vector, an array goes element by element, or tiles start anywhere
  [[nodiscard]] int index_bits() const noexcept { return launch_.deal.usual ? 32 : 64; }
  /// @return elements of a tile along the output's innermost dimension; 0: there are no tiles
  [[nodiscard]] unsigned tile_columns() const noexcept { return tile_columns_; }
  /// @return elements of a tile along the dimension in which the view's memory runs
  [[nodiscard]] unsigned tile_rows() const noexcept { return tile_rows_; }
  /// @return pixels that a thread reads whole, and writes channel by channel; 0: it goes otherwise
  [[nodiscard]] unsigned pixels_per_thread() const noexcept { return pixels_; }
  /// @return bytes read of all arrays; one that occurs several times counts once, unless it is read
  ///   further the second time
  [[nodiscard]] std::uint64_t bytes_read() const noexcept { return read_; }
  /// @return bytes written
  [[nodiscard]] std::uint64_t bytes_written() const noexcept { return written_; }
  /// @return arrays in the order in which they are written, each output before what it is assigned
  [[nodiscard]] int arrays() const noexcept { return count_; }
  /// @param k  in [0, arrays())
  [[nodiscard]] array_plan const& array(int k) const noexcept { return arrays_[k]; }

  /// @return bytes that a thread has asked for before it uses the first, of arrays that do not
  ///   repeat; 0 where it reads none, and of tiles and pixels, which are not reckoned
  [[nodiscard]] unsigned bytes_in_flight_per_thread() const noexcept { return flying_; }

  /// The least time the memory takes: bytes over bandwidth, without the launch.
  /// @param bytes_per_second  what a copy on the device reaches, read and written bytes together:
  ///   some 3.0e12 on an H100 SXM
  /// @return seconds
  [[nodiscard]] double seconds(double bytes_per_second) const noexcept {
    return static_cast<double>(read_ + written_) / bytes_per_second;
  }

  /// @return the GPU that plan() was given; one without multiprocessors where it was given none
  [[nodiscard]] architecture const& gpu() const noexcept { return gpu_; }
  /// @return how the grid fills that GPU, as far as threads and blocks decide; no waves without one
  [[nodiscard]] grid_fit const& fit() const noexcept { return fit_; }
  /// @return bytes of loads under way on that GPU at a time, at most; 0 without one
  [[nodiscard]] std::uint64_t bytes_in_flight() const noexcept {
    std::uint64_t const places = static_cast<std::uint64_t>(fit_.resident_blocks) *
                                 static_cast<std::uint64_t>(gpu_.multiprocessors);
    std::uint64_t const resident = launch_.blocks < places ? launch_.blocks : places;
    std::uint64_t const bytes = resident * launch_.threads * flying_;
    return bytes < read_ ? bytes : read_;
  }
  /// The time from the start of one such kernel to that of the next on that GPU, in a stream that
  /// has many: the launch, or the bytes over bandwidth, whichever is longer. As if all bytes came
  /// from device memory: what L2 still holds is faster.
  /// @return seconds; 0 without a GPU, and where nothing is launched
  [[nodiscard]] double expected_seconds() const noexcept {
    if (bound() == time_bound::unknown) return 0;
    return bound() == time_bound::launch ? gpu_.launch_seconds : seconds(gpu_.bytes_per_second());
  }
  /// @return which of the two that is
  [[nodiscard]] time_bound bound() const noexcept {
    if (gpu_.multiprocessors == 0 || elements_ == 0) return time_bound::unknown;
    return seconds(gpu_.bytes_per_second()) > gpu_.launch_seconds ? time_bound::memory
                                                                  : time_bound::launch;
  }

  /// Puts the plan into words: a line for what is launched; with a GPU, one for how it fills that
  /// and one for the expected time; and one for each array that is not moved by vectors, with the
  /// reason.
  /// @param bytes_per_second  as for seconds(), in place of the GPU's; 0: the GPU's, and no time is
  ///   told where there is none
  /// @return lines separated by newlines, none behind the last
  /// @throws std::bad_alloc  when the host has no memory
  /// **Threads:** safe. **Capture:** legal; no CUDA call.
  [[nodiscard]] std::string explain(double bytes_per_second = 0) const {
    if (elements_ == 0) return "no elements: nothing is launched";
    std::string words = launched();
    if (fit_.waves != 0) words += filled().c_str();
    if (bytes_per_second > 0) {
      words += taken(bytes_per_second, true).c_str();
    } else if (gpu_.multiprocessors != 0) {
      words += taken(gpu_.bytes_per_second(), gpu_.copy_bytes_per_second > 0).c_str();
    }
    if (launch_.deal.edge != 0 && launch_.deal.vectors != 0) {
      words +=
          (detail::text{"\n"} + launch_.deal.edge +
           (launch_.deal.edge == 1 ? " element lies" : " elements lie") + " outside the vectors, " +
           launch_.deal.head + " before the first, and go one a thread in a block of their own")
              .c_str();
    }
    for (int k = 0; k < count_ && launch_.deal.vectors != 0; ++k) {
      array_plan const& a = arrays_[k];
      if (a.tiled) {
        words += (detail::text{"\n"} + name(a) +
                  " goes by tiles through shared memory: its neighbours lie " + a.step +
                  " elements apart, and its memory runs along another dimension")
                     .c_str();
      } else if (a.by_pixels) {
        words += (detail::text{"\n"} + name(a) +
                  " goes by pixels: its channels lie side by side, and each thread reads all of "
                  "them")
                     .c_str();
      } else if (!a.wide) {
        words += (detail::text{"\n"} + name(a) + " goes element by element: " + reason(a)).c_str();
      }
    }
    return words;
  }

 private:
  friend struct detail::plan_filler;

  // The first line: the grid, what a thread does, the bytes, and which arrays are one.
  [[nodiscard]] std::string launched() const {
    using detail::text;
    text words = text{elements_} + (elements_ == 1 ? " element" : " elements") +
                 " in one kernel: " + launch_.blocks +
                 (launch_.blocks == 1 ? " block of " : " blocks of ") + launch_.threads +
                 " threads, ";
    if (tile_columns_ != 0) {
      words += text{"a tile of "} + tile_rows_ + " by " + tile_columns_ + " elements a block";
    } else if (pixels_ != 0) {
      words += text{pixels_} + (pixels_ == 1 ? " pixel of " : " pixels of ") + channels_ +
               " channels a thread";
    } else if (launch_.deal.vectors == 0) {
      words += text{"1 element a thread, as there is no whole vector of "} + vector_elements_;
    } else {
      words += text{vectors_per_thread_} +
               (vectors_per_thread_ == 1 ? " vector of " : " vectors of ") + vector_elements_ +
               (vector_elements_ == 1 ? " element" : " elements") + " a thread";
    }
    if (tile_columns_ + pixels_ == 0) words += text{", "} + index_bits() + "-bit indices";
    words += text{"; reads "} + read_ + " bytes, writes " + written_;
    std::string all = words.c_str();
    bool apart = true;
    bool reads = false;
    for (int k = 0; k < count_; ++k) {
      reads = reads || std::strcmp(arrays_[k].kind, "output") != 0;
      if (arrays_[k].in_place_of == 0) continue;
      apart = false;
      all += (text{"; "} + name(arrays_[k]) + " is in place of output " + arrays_[k].in_place_of)
                 .c_str();
    }
    if (apart && reads) all += "; outputs apart from what is read";
    return all;
  }
  [[nodiscard]] detail::text filled() const {
    using detail::text;
    double const percent = fit_.last_wave_filled * 100;
    text const share =
        percent < 1 ? text{"less than 1"} : text{static_cast<int>(percent)};  // 100 only if full
    text words = text{"\non "} + gpu_.name + ", " + gpu_.multiprocessors +
                 " multiprocessors with room for " + fit_.resident_blocks +
                 (fit_.resident_blocks == 1 ? " such block" : " such blocks") + " each: ";
    words += fit_.waves == 1 ? text{"1 wave, "} + share + " % full"
                             : text{fit_.waves} + " waves, the last " + share + " % full";
    if (std::uint64_t const bytes = bytes_in_flight()) {
      words += text{"; "} + rounded(static_cast<double>(bytes) / gpu_.multiprocessors / 1024) +
               " KiB of loads under way on each";
    }
    return words;
  }
  [[nodiscard]] detail::text taken(double bytes_per_second, bool by_a_copy) const {
    using detail::text;
    double const launch = gpu_.launch_seconds;
    double const memory = seconds(bytes_per_second);
    std::uint64_t const bytes = read_ + written_;
    if (memory <= launch) {
      return text{"\nabout "} + time(launch) + ": the launch, not its " + bytes +
             " bytes, is the cost";
    }
    text words = text{by_a_copy ? "\nabout " : "\nat least "} + time(memory) + ": memory, " +
                 bytes + " bytes at " + (by_a_copy ? "" : "the peak of ") +
                 bytes_per_second * 1e-9 + " GB/s";
    if (bytes <= gpu_.l2_bytes) {
      words += text{", unless they are found in its "} +
               static_cast<unsigned long long>(gpu_.l2_bytes >> 20U) + " MiB of L2";
    }
    return words;
  }
  // Two digits, or all those before the point: an estimate has no more.
  static double rounded(double value) {
    double step = 1;
    while (step > 1e-9 && value < 10 * step) step /= 10;
    return static_cast<double>(static_cast<std::uint64_t>(value / step + 0.5)) * step;
  }
  static detail::text time(double seconds) {
    using detail::text;
    if (seconds >= 1) return text{rounded(seconds)} + " s";
    if (seconds >= 1e-3) return text{rounded(seconds * 1e3)} + " ms";
    return text{rounded(seconds * 1e6)} + " us";
  }
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
    if (pixels_ != 0 && vector_elements_ == 1) {
      if (pitch_ != channels_) {
        return text{"of the "} + pitch_ + " channels of a pixel the view has " + channels_ +
               ", and vectors would read the others, too";
      }
      return "the pixels of a picture are no whole number of vectors, or start off a boundary";
    }
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
  unsigned pixels_ = 0;
  unsigned channels_ = 0;
  unsigned pitch_ = 0;
  std::uint64_t read_ = 0;
  std::uint64_t written_ = 0;
  int count_ = 0;
  array_plan arrays_[64];
  unsigned flying_ = 0;
  architecture gpu_;
  grid_fit fit_;
};

namespace detail {

struct plan_filler {
  static void place_on(kernel_plan& plan, architecture const& gpu, source_location where) {
    auto const refuse = [&](text const& problem) {
      warpwright::detail::throw_invalid_argument(
          text{"ew::plan: the architecture "} + gpu.name + " " + problem, where);
    };
    if (gpu.multiprocessors < 1 || gpu.threads_per_multiprocessor < 1 ||
        gpu.blocks_per_multiprocessor < 1) {
      refuse(text{"has "} + gpu.multiprocessors + " multiprocessors of " +
             gpu.threads_per_multiprocessor + " threads and " + gpu.blocks_per_multiprocessor +
             " blocks; set all three, or start from one of ew::gpus");
    }
    if (!(gpu.bytes_per_second() > 0) || !(gpu.launch_seconds >= 0)) {
      refuse(text{"has a bandwidth of "} + gpu.bytes_per_second() +
             " bytes a second and launches of " + gpu.launch_seconds +
             " seconds; set peak_bytes_per_second where the driver does not tell the memory clock");
    }
    plan.gpu_ = gpu;
    plan.fit_ = fit_grid(plan.blocks(), plan.threads(), gpu);
  }
  static unsigned elements_a_thread(kernel_plan const& plan) {
    if (plan.launch_.deal.vectors == 0) return 1;
    return static_cast<unsigned>(plan.vector_elements_ * plan.vectors_per_thread_);
  }
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
    if (launch.deal.spread) plan.vectors_per_thread_ = 1;
    if (tiles.blocks != 0) {
      plan.launch_ = {};
      plan.launch_.threads = tiles.threads;
      plan.launch_.blocks = tiles.blocks;
      plan.launch_.deal.vectors = plan.elements_ / static_cast<unsigned>(vector);
      plan.launch_.deal.wide = tiles.vectors || vector == 1 ? tiles.wide : 0;
      plan.tile_columns_ = tiles.columns;
      plan.tile_rows_ = tiles.rows;
      plan.pixels_ = tiles.pixels;
      plan.channels_ = tiles.channels;
      plan.pitch_ = tiles.pitch;
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
      a.tiled = tiles.blocks != 0 && tiles.pixels == 0 && k == tiles.view;
      a.by_pixels = tiles.pixels != 0 && k == tiles.view;
      if (all[k].shaped) a.kind = "view";
      if (all[k].kind == reach::view) {
        a.step = all[k].step;
        a.run = all[k].run;
      }
      int output = 0;
      int number = 0;  // of the output that stands there
      for (int j = 0; j < assignments && !is_output; output += counts[j++]) {
        ++number;
        if (in_place(all[k], all[output])) a.in_place_of = number;
      }
      for (int j = 0; j < plan.count_ && !is_output; ++j) {
        array_plan const& b = plan.arrays_[j];
        a.again = a.again || (std::strcmp(b.kind, "output") != 0 && b.address == a.address &&
                              b.bytes >= a.bytes);
      }
      if (!a.again) (is_output ? plan.written_ : plan.read_) += a.bytes;
      bool const streams =
          all[k].kind == reach::elements || (all[k].kind == reach::view && all[k].step != 0);
      if (streams && !is_output && !a.again && tiles.blocks == 0) {
        plan.flying_ += a.element_bytes * elements_a_thread(plan);
      }
      ++plan.count_;
    }
    return plan;
  }
};

template <class A>
inline constexpr bool is_tie = false;
template <class... A>
inline constexpr bool is_tie<assignments<A...>> = true;
template <class A>
using if_planned = std::enable_if_t<is_assignment<A> || is_tie<A>>;

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

template <int Bytes, class... A>
kernel_plan plan_parts(source_location where, A const&... a) {
  using parts = fused<A...>;
  constexpr int bytes = Bytes < parts::most_bytes ? Bytes : parts::most_bytes;
  constexpr int vector = parts::template vector_of<bytes>;
  operand all[parts::operands];
  parts::template describe<vector>(all, where, a...);
  int const counts[] = {part_t<A>::operands...};
  tile_summary tiles;
  if constexpr ((holds_view<decltype(a.expression)> || ...)) {
    if (all[0].count != 0) tiles = summarize_tiles(parts{a...}, all);  // of views.hpp
  }
  launch_plan launch;
  if (all[0].count != 0) launch = parts::template deal_out<bytes>(all, all[0].count);
  return plan_filler::fill(all, counts, static_cast<int>(sizeof...(A)), vector,
                           launch.deal.singly ? parts::singles : parts::template vectors_of<bytes>,
                           launch, tiles);
}

template <int Bytes, class... A, std::size_t... Index>
kernel_plan plan_each(source_location where, assignments<A...> const& all,
                      std::index_sequence<Index...>) {
  return plan_parts<Bytes>(where, at<Index>(all.each)...);
}

template <int Bytes, class T, class E>
kernel_plan plan_by(assignment<T, E> const& a, source_location where) {
  return plan_parts<Bytes>(where, a);
}
template <int Bytes, class T, int Rank, class E>
kernel_plan plan_by(strided_assignment<T, Rank, E> const& a, source_location where) {
  return plan_parts<Bytes>(where, a.in_memory_order());
}
template <int Bytes, class... A>
kernel_plan plan_by(assignments<A...> const& all, source_location where) {
  return plan_each<Bytes>(where, all, std::index_sequence_for<A...>{});
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// Says what run() would launch on a GPU.
///
/// How much a thread loads at once is compiled in, by the arrays' types; what is left to decide
/// depends on addresses and sizes. So it is the same on every GPU below compute capability 10.0.
/// @param a  as for run(), an assignment, or several in tie(); the arrays are not touched
/// @return the plan, without a GPU to tell waves and times of
/// @throws std::invalid_argument  as run() does, but for more elements than a grid can hold
/// **Threads:** any. **Capture:** legal; no CUDA call.
template <class A, class = detail::if_planned<A>>
[[nodiscard]] kernel_plan plan(A const& a, source_location where = source_location::current()) {
  return detail::plan_by<16>(a, where);
}

/// As above, and says how that kernel fills one GPU, and how long it takes there.
/// @param gpu  one of ew::gpus, architecture::of(device), or figures of your own
/// @return the plan; what is launched is that of plan(a), or, from compute capability 10.0 on, of a
///   kernel that is compiled for that and moves 32 bytes at a time
/// @throws std::invalid_argument  as above, and for a GPU without multiprocessors, places for
///   threads or blocks, or bandwidth
/// **Threads:** any. **Capture:** legal; no CUDA call.
template <class A, class = detail::if_planned<A>>
[[nodiscard]] kernel_plan plan(A const& a, architecture const& gpu,
                               source_location where = source_location::current()) {
  kernel_plan result =
      gpu.major >= 10 ? detail::plan_by<32>(a, where) : detail::plan_by<16>(a, where);
  detail::plan_filler::place_on(result, gpu, where);
  return result;
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew

WARPWRIGHT_END
