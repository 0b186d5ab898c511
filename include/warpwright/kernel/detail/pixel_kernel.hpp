// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Evaluates an assignment pixel by pixel: one view is read whole by each thread, a few channels
// side by side, and the expression is evaluated for one channel after the other.
#pragma once

#include <warpwright/kernel/detail/view_node.hpp>
#include <warpwright/kernel/evaluate.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

template <class T, class E, class Place>
struct views_below<fused_part<T, E, Place>> : views_below_counts<E> {
  template <class Show>
  static void each(fused_part<T, E, Place>& part, Show& show) {
    views_below<E>::each(part.expression, show);
  }
  template <class Registers, class Fill>
  WARPWRIGHT_HOST_DEVICE static void fill(fused_part<T, E, Place> const& part, Registers& r,
                                          Fill const& fill) {
    views_below<E>::fill(part.expression, r, fill);
  }
};

template <class T, class E, class Place>
inline constexpr bool is_order_free<fused_part<T, E, Place>> = is_order_free<E>;

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

// Calls fill(view, registers) for all views of a kernel.
template <class Fill, class... Part>
struct fill_views {
  Fill fill;
  template <class Registers>
  WARPWRIGHT_HOST_DEVICE void operator()(pack<Part...> const& parts, Registers& r) const {
    using all = views_below_all<Part...>;
    all::fill(parts, r, fill, typename all::indices{});
  }
};

template <int Count>
WARPWRIGHT_HOST_DEVICE void copy_words(std::uint32_t* to, std::uint32_t const* from) {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int k = 0; k < Count; ++k) to[k] = from[k];
}

// The view that is brought by pixels reads those of one thread into `words`.
template <int V>
struct load_pixels {
  std::uint32_t* words;
  std::int64_t from;
  unsigned count;
  template <class T, int Rank>
  WARPWRIGHT_HOST_DEVICE void operator()(view_input<T, Rank> const& view,
                                         lanes<bits_of<T>, V>&) const {
    if constexpr (view_input<T, Rank>::template fits_pixels<V>) {
      if (view.way != tile_way::staged) return;
      pixel_lanes<bits_of<T>, V> pixels;
      auto const* const start = reinterpret_cast<unsigned char const*>(view.data) + from;
      pixels.load(reinterpret_cast<bits_of<T> const*>(start), count);
      copy_words<pixel_lanes<bits_of<T>, V>::words>(words, pixels.held.words);
    }
  }
};
// Takes the elements of its next channel from there; adds what others have not loaded.
template <int V>
struct take_pixels {
  std::uint32_t* words;
  unsigned pitch;
  template <class T, int Rank>
  WARPWRIGHT_HOST_DEVICE void operator()(view_input<T, Rank> const& view,
                                         lanes<bits_of<T>, V>& r) const {
    if constexpr (view_input<T, Rank>::template fits_pixels<V>) {
      if (view.way == tile_way::staged) {
        pixel_lanes<bits_of<T>, V> pixels;
        copy_words<pixel_lanes<bits_of<T>, V>::words>(pixels.held.words, words);
        pixels.take(r, pitch);
        copy_words<pixel_lanes<bits_of<T>, V>::words>(words, pixels.held.words);
        return;
      }
    }
    if constexpr (V > 1) {
      if (view.way == tile_way::repeated) view_input<T, Rank>::template repeat<V>(r, r.get(0));
    }
  }
};

template <int V>
struct repeat_views {
  template <class T, int Rank>
  WARPWRIGHT_HOST_DEVICE void operator()(view_input<T, Rank> const& view,
                                         lanes<bits_of<T>, V>& r) const {
    if (view.way == tile_way::repeated) view_input<T, Rank>::template repeat<V>(r, r.get(0));
  }
};

// One thread's part.
template <class Fused>
struct pixel_work;
template <class... A>
struct pixel_work<fused<A...>> {
  using views = views_below_all<part_t<A>...>;
  static constexpr bool may_spread =
      fused<A...>::vector > 1 && !fused<A...>::strided && (is_order_free<part_t<A>> && ...);
  WARPWRIGHT_HOST_DEVICE static void run(fused<A...> const& f, pixel_job const& job,
                                         unsigned number) {
    constexpr int vector = fused<A...>::vector;
    if constexpr (vector > 1 && views::template pixels<vector> != 0) {
      if (job.vectors) return run_by<vector>(f, job, number);
    }
    if constexpr (may_spread) {
      run_spread(f, job, number);
    } else {
      run_by<1>(f, job, number);
    }
  }

 private:
  WARPWRIGHT_HOST_DEVICE static void run_spread(fused<A...> const& f, pixel_job const& job,
                                                unsigned number) {
    constexpr int vector = fused<A...>::vector;
    std::int64_t from = 0;
    tile_element element = job.first(number, vector, from);
    if (element.at[0] >= job.extent) return;
    unsigned const count = (job.extent - element.at[0] + spread_step - 1) / spread_step;
    using fill = repeat_views<vector>;
#if defined(__CUDA_ARCH__)
#pragma unroll 1
#endif
    for (unsigned c = 0; c < job.channels; ++c) {
      spread_place const place{element.index, element.at, from, job.pitch_bytes * spread_step,
                               count};
      f.template vector_with<vector>(place, ~std::uint64_t{0}, fill_views<fill, part_t<A>...>{{}});
      element.index += job.out_c;
      ++element.at[1];
      from += job.pitch_bytes / job.pitch;
    }
  }
  template <int V>
  WARPWRIGHT_HOST_DEVICE static void run_by(fused<A...> const& f, pixel_job const& job,
                                            unsigned number) {
    std::uint32_t words[views::template pixels<V>] = {};
    std::int64_t from = 0;
    tile_element element = job.first(number, V, from);
    using load = load_pixels<V>;
    typename fused<A...>::template registers<V> none{};
    fill_views<load, part_t<A>...>{load{words, from, V == 1 ? job.channels : job.pitch}}(f.parts,
                                                                                         none);
#if defined(__CUDA_ARCH__)
    warpwright::detail::release_successors();
#endif
    using take = take_pixels<V>;
#if defined(__CUDA_ARCH__)
#pragma unroll 1
#endif
    for (unsigned c = 0; c < job.channels; ++c) {
      f.template vector_with<V>(pixel_place{element}, job.wide,
                                fill_views<take, part_t<A>...>{take{words, job.pitch}});
      element.index += job.out_c;
      ++element.at[1];
    }
  }
};

#if defined(__CUDACC__)

template <class Fused>
struct pixel_launch;
template <class Fused>
__global__ void __launch_bounds__(pixel_threads) pixel_kernel(Fused const f, pixel_job const job) {
  warpwright::detail::await_predecessors();
  unsigned const number = blockIdx.x * pixel_threads + threadIdx.x;
  if (number < job.threads) pixel_work<Fused>::run(f, job, number);
}

template <class... A>
void run_pixels(stream_ref stream, source_location where, fused<A...> const& f,
                pixel_job const& job) {
  auto const blocks = static_cast<unsigned>((job.threads + pixel_threads - 1) / pixel_threads);
  warpwright::detail::launch_kernel<pixel_launch<fused<A...>>>(
      &pixel_kernel<fused<A...>>, dim3{blocks}, dim3{pixel_threads}, 0, stream, where, f, job);
}

#endif

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
