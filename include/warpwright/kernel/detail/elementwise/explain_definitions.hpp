// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/kernel/explain.hpp>

#include <cstring>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

// The text of kernel_plan::explain().
class plan_text {
 public:
  explicit plan_text(kernel_plan const& plan) : plan_{plan} {}

  [[nodiscard]] std::string all(double bytes_per_second) const {
    if (plan_.elements_ == 0) return "no elements: nothing is launched";
    std::string words;
    vector_partition const& partition = plan_.launch_.partition;
    add_launch(words);
    if (plan_.fit_.waves != 0) add_occupancy(words);
    if (!(bytes_per_second > 0) && plan_.gpu_.is_measured())
      bytes_per_second = plan_.gpu_.copy_bytes_per_second;
    if (bytes_per_second > 0) add_time(words, bytes_per_second);
    if (partition.vectors == 0) return words;
    if (partition.edge != 0) {
      add(words, text{"\n"} + plural(partition.edge, "element") + " in no vector, " +
                     partition.head + " before the first: one per thread, in a separate block");
    }
    for (int k = 0; k < plan_.count_; ++k) {
      array_plan const& a = plan_.arrays_[k];
      if (a.wide && !a.tiled && !a.by_pixels) continue;
      add(words, text{"\n"} + name(a) + " is accessed " + access_of(a));
    }
    return words;
  }
  static bool is_output(array_plan const& a) { return std::strcmp(a.kind, "output") == 0; }

 private:
  static void add(std::string& words, text const& more) { words += more.c_str(); }

  void add_launch(std::string& words) const {
    add(words, plural(plan_.elements_, "element") +
                   " in one kernel: " + plural(plan_.launch_.blocks, "block") + " of " +
                   plan_.launch_.threads + " threads, ");
    if (plan_.tiles_.columns != 0) {
      add(words, text{"a tile of "} + plan_.tiles_.rows + " by " + plan_.tiles_.columns +
                     " elements per block");
    } else if (plan_.tiles_.pixels != 0) {
      add(words, plural(plan_.tiles_.pixels, "pixel") + " of " + plan_.tiles_.channels +
                     " channels per thread");
    } else if (plan_.launch_.partition.vectors == 0) {
      add(words,
          text{"1 element per thread, as no whole vector of "} + plan_.vector_elements_ + " fits");
    } else {
      add(words, plural(static_cast<unsigned>(plan_.vectors_per_thread_), "vector") + " of " +
                     plural(static_cast<unsigned>(plan_.vector_elements_), "element") +
                     " per thread");
    }
    if (plan_.tiles_.blocks == 0) add(words, text{", "} + plan_.index_bits() + "-bit indices");
    add(words, text{"; reads "} + plan_.read_ + " bytes, writes " + plan_.written_ + " bytes");
    bool reads = false;
    bool updates = false;
    for (int k = 0; k < plan_.count_; ++k) {
      reads = reads || !is_output(plan_.arrays_[k]);
      if (plan_.arrays_[k].in_place_of == 0) continue;
      updates = true;
      add(words, text{"; "} + name(plan_.arrays_[k]) + " is output " +
                     plan_.arrays_[k].in_place_of + ", updated in place");
    }
    if (reads && !updates) words += "; no array is both read and written";
  }
  void add_occupancy(std::string& words) const {
    double const percent = plan_.fit_.last_wave_filled * 100;
    add(words, text{"\non "} + plan_.gpu_.name + ", " + plan_.gpu_.multiprocessors +
                   " multiprocessors with " +
                   plural(static_cast<unsigned>(plan_.fit_.resident_blocks), "resident block") +
                   " each: " + plural(plan_.fit_.waves, "wave") +
                   (plan_.fit_.waves == 1 ? "," : ", the last"));
    add(words, percent < 1 ? text{" less than 1"} : text{" "} + static_cast<int>(percent));
    words += " % full";
    if (std::uint64_t const bytes = plan_.bytes_in_flight()) {
      double const kib = static_cast<double>(bytes) / plan_.gpu_.multiprocessors / 1024;
      add(words, text{"; "} + rounded(kib) + " KiB of loads in flight on each");
    }
  }
  void add_time(std::string& words, double bytes_per_second) const {
    std::uint64_t const bytes = plan_.read_ + plan_.written_;
    double const launch = plan_.gpu_.launch_seconds;
    double const memory = plan_.seconds(bytes_per_second);
    if (memory <= launch) {
      return add(words, text{"\nabout "} + time(launch) + ": the launch, which takes longer than " +
                            bytes + " bytes");
    }
    add(words, text{"\nabout "} + time(memory) + ": memory, " + bytes + " bytes at " +
                   bytes_per_second * 1e-9 + " GB/s");
    if (launch == 0) words += ", without the launch";
    std::uint64_t const l2_mib = plan_.gpu_.l2_bytes >> 20U;
    if (bytes <= plan_.gpu_.l2_bytes) {
      add(words, text{"; less if they are in the L2 cache of "} + l2_mib + " MiB");
    }
  }

  // How an array is accessed that does not simply go by vectors, and why.
  [[nodiscard]] text access_of(array_plan const& a) const {
    if (a.tiled) {
      return text{"by tiles through shared memory: its neighbours are "} + a.step +
             " elements apart, and its contiguous dimension is another one";
    }
    if (a.by_index) return "element by element, each where its index says";
    if (a.by_pixels) return "by whole pixels, whose channels are contiguous";
    return text{"element by element: "} + obstacle(a);
  }
  // What keeps an array from being moved by vectors.
  [[nodiscard]] text obstacle(array_plan const& a) const {
    unsigned const head = plan_.launch_.partition.head;
    bool const scalar_tiles = plan_.tiles_.blocks != 0 && plan_.vector_elements_ == 1;
    if (!is_output(a) || a.run == 0) {
      if (plan_.launch_.partition.scalar_only) return "as a strided output";
      if (scalar_tiles && plan_.tiles_.pixels == 0) {
        return "the output's rows do not all start and end at a vector boundary";
      }
      if (scalar_tiles && plan_.tiles_.pitch == plan_.tiles_.channels) {
        return "the pixels of an image are not a whole number of vectors, or are misaligned";
      }
      if (scalar_tiles) {
        return text{"the view has "} + plan_.tiles_.channels + " of the " + plan_.tiles_.pitch +
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
             " neighbours, not a whole number of vectors of " + plan_.vector_elements_;
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
    return text{"its rows are not a whole number of vectors of "} + plan_.vector_elements_ +
           " elements";
  }

  static text plural(std::uint64_t count, char const* noun) {
    return text{count} + " " + noun + (count == 1 ? "" : "s");
  }
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

  kernel_plan const& plan_;
};

WARPWRIGHT_INLINE plan_builder::plan_builder(elementwise_types const& types, operand const* all,
                                             launch_plan const& launch, tile_summary const& tiles) {
  bool const scalars = launch.partition.scalar_only;
  plan.elements_ = all[0].count;
  plan.vector_elements_ = static_cast<int>(types.vector);
  plan.vectors_per_thread_ = static_cast<int>(scalars ? types.scalars_per_thread : types.vectors);
  if (plan.elements_ == 0) return;
  plan.launch_ = launch;
  plan.tiles_ = tiles;
  if (scalars) plan.vector_elements_ = 1;
  if (tiles.blocks != 0) {
    plan.launch_ = {};
    plan.launch_.threads = tiles.threads;
    plan.launch_.blocks = tiles.blocks;
    plan.launch_.partition.vectors = plan.elements_ / types.vector;
    plan.launch_.partition.wide = tiles.vectors || types.vector == 1 ? tiles.wide : 0;
    plan.vectors_per_thread_ = 1;
    if (!tiles.vectors) plan.vector_elements_ = 1;
  }
  int operands = 0;
  for (int o = 0, k = 0; o < types.assignments; ++o) {
    for (int const output = k; k < output + types.counts[o]; ++k) {
      if (all[k].kind == access_pattern::absent) continue;
      array_plan a = array(all[k], k, k == output);
      a.number = k == output ? o + 1 : ++operands;
      for (int p = 0, other = 0; p < types.assignments && k != output; other += types.counts[p++]) {
        if (in_place(all[k], all[other])) a.in_place_of = p + 1;
      }
      for (int j = 0; j < plan.count_ && k != output; ++j) {
        array_plan const& b = plan.arrays_[j];
        bool const contains =
            b.address == a.address && b.bytes >= a.bytes && all[k].kind != access_pattern::table;
        a.again = a.again || (contains && !plan_text::is_output(b));
      }
      if (!a.again) (k == output ? plan.written_ : plan.read_) += a.bytes;
      if (!a.again && k != output) add_loads(all[k]);
      plan.arrays_[plan.count_++] = a;
    }
  }
}

WARPWRIGHT_INLINE void plan_builder::place_on(gpu_model const& gpu, source_location where) {
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

WARPWRIGHT_INLINE array_plan plan_builder::array(operand const& o, int k, bool is_output) const {
  bool const view = o.kind == access_pattern::view;
  bool const tiled = plan.tiles_.blocks != 0 && k == plan.tiles_.view;
  array_plan a;
  a.kind = is_output && !o.shaped ? "output" : kind_name(o);
  a.wide = (plan.launch_.partition.wide >> static_cast<unsigned>(k) & 1U) != 0;
  a.tiled = tiled && plan.tiles_.pixels == 0;
  a.by_pixels = tiled && plan.tiles_.pixels != 0;
  a.element_bytes = o.element_bytes;
  a.aligned_bytes = o.aligned_bytes;
  a.address = o.address;
  a.bytes = view ? o.touched : span_bytes(o, plan.elements_);
  if (o.kind == access_pattern::table) a.bytes = plan.elements_ * o.element_bytes;
  a.by_index = o.kind == access_pattern::table && o.cols == 0;
  a.wide = a.wide && !a.by_index;
  if (view) {
    a.step = o.step;
    a.run = o.run;
  }
  return a;
}

WARPWRIGHT_INLINE void plan_builder::add_loads(operand const& o) {
  bool const streams = o.kind == access_pattern::elements || o.kind == access_pattern::table;
  bool const repeats = o.kind == access_pattern::view ? o.step == 0 : !streams;
  if (repeats || plan.tiles_.blocks != 0) return;
  bool const vectors = plan.launch_.partition.vectors != 0;
  int const elements = vectors ? plan.vector_elements_ * plan.vectors_per_thread_ : 1;
  plan.bytes_in_flight_ += o.element_bytes * static_cast<unsigned>(elements);
}

}  // namespace detail

WARPWRIGHT_INLINE std::string kernel_plan::explain(double bytes_per_second) const {
  return detail::plan_text{*this}.all(bytes_per_second);
}

}  // namespace ew

WARPWRIGHT_END
