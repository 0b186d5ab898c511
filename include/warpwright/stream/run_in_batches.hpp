// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/clock.hpp>
#include <warpwright/stream/collect.hpp>
#include <warpwright/stream/prefetch.hpp>

#include <cstring>
#include <string>
#include <type_traits>

WARPWRIGHT_BEGIN

/// Items in host memory, one after another.
template <class T>
struct batch_input {
  T const* data = nullptr;            ///< items * elements_per_item elements
  std::size_t items = 0;              ///< number of items
  std::size_t elements_per_item = 1;  ///< number of elements of an item, as the pixels of an image
};

template <class T>
batch_input(T*, std::size_t, std::size_t = 1) -> batch_input<std::remove_const_t<T>>;

/// Memory of the host for as many results as there are items.
template <class T>
struct batch_output {
  T* data = nullptr;                  ///< items * elements_per_item elements
  std::size_t elements_per_item = 1;  ///< number of elements of a result
};

template <class T>
batch_output(T*, std::size_t = 1) -> batch_output<T>;

/// What run_in_batches() has done.
struct batch_run {
  std::size_t items = 0;        ///< that went through
  double seconds = 0.0;         ///< of the whole call
  prefetch_statistics input;    ///< of the items' way to the device, until the last result
  prefetch_statistics results;  ///< of the results' way back
  double first_batch_seconds =
      0.0;  ///< of the call, until the first batch of items was there: to allocate, and to fill it

  /// @return items per second; 0 for no items
  [[nodiscard]] double items_per_second() const noexcept {
    return seconds > 0.0 ? static_cast<double>(items) / seconds : 0.0;
  }
  /// @return the statistics and limits of both ways, in words
  [[nodiscard]] std::string to_text() const {
    return detail::batch_run_in_words(items, seconds, first_batch_seconds) + input.to_text() +
           results.to_text();
  }
};

namespace detail {

/// @throws std::invalid_argument  for null pointers, empty items or batches, sizes that overflow
inline void check_batch_run(void const* in, std::size_t in_bytes, void const* out,
                            std::size_t out_bytes, std::size_t items, std::size_t batch_items,
                            source_location where) {
  if (batch_items == 0) {
    throw_invalid_argument("run_in_batches: batches of 0 items; give at least 1", where);
  }
  if (in_bytes == 0 || out_bytes == 0) {
    throw_invalid_argument(text{"run_in_batches: "} + (in_bytes == 0 ? "an item" : "a result") +
                               " of 0 elements; elements_per_item is at least 1",
                           where);
  }
  if (items != 0 && (in == nullptr || out == nullptr)) {
    throw_invalid_argument(text{"run_in_batches: "} +
                               (in == nullptr ? "the items" : "the results") +
                               " are at a null pointer, and there are " + items + " items",
                           where);
  }
  std::size_t const larger = in_bytes > out_bytes ? in_bytes : out_bytes;
  std::size_t const most = items > batch_items ? items : batch_items;
  if (most > ~std::size_t{0} / larger) {
    throw_invalid_argument(text{"run_in_batches: "} + most + " items of " + larger +
                               " bytes: more than memory can have",
                           where);
  }
}

constexpr std::size_t bytes_of(std::size_t elements, std::size_t element_bytes) noexcept {
  return elements <= ~std::size_t{0} / element_bytes ? elements * element_bytes : ~std::size_t{0};
}

}  // namespace detail

/// Sends items in host memory through a function that works on batches in device memory, and brings
/// the results back. Threads copy items to page-locked memory ahead, two streams copy to and from
/// the device, and meanwhile `stream` works; the last batch has the rest of the items.
/// @param stream       of the pool's device: the work runs on it, batch after batch
/// @param pool         provides device memory: depth times a batch of items, and of results
/// @param pinned       provides as much page-locked memory
/// @param in           the items; not changed until the call returns
/// @param batch_items  the number of items of all batches but the last one, at least 1
/// @param f            `void f(stream_ref stream, In const* in, Out* out, std::size_t items)`:
///   enqueues the work on one batch, all of it on `stream` or ordered before its later work. The
///   addresses are `depth` different pairs, in turn: give a graph_cache as many variants
/// @param out          receives the results, in the order of the items
/// @param options      workers that copy items, depth of both rings, which do not grow; one thread
///   copies the results
/// @return what was done; batch_run::to_text() says what the limit was
/// @throws what `f` throws; results of batches before it may have arrived
/// @throws std::invalid_argument      for null pointers, sizes and options out of range, a
///   capturing stream
/// @throws out_of_memory, cuda_error  when a call fails, or memory is not to be had
/// @throws std::runtime_error         when the system refuses a thread
/// **Stream:** behind earlier work of `stream`; blocks until all results are in host memory.
/// **Threads:** any number may call at once, with streams of their own. **Capture:** not with a
/// capturing stream; captures of other streams are not disturbed. **Cost:** starts threads and
/// page-locks the rings unless the pinned_pool has free memory: give it initial_bytes().
template <class In, class Out, class F>
batch_run run_in_batches(stream_ref stream, memory_pool& pool, pinned_pool& pinned,
                         batch_input<In> in, std::size_t batch_items, F&& f, batch_output<Out> out,
                         prefetch_options const& options = {},
                         source_location where = source_location::current()) {
  static_assert(std::is_invocable<F&, stream_ref, In const*, Out*, std::size_t>::value,
                "warpwright: run_in_batches calls f(warpwright::stream_ref stream, In const* in, "
                "Out* out, std::size_t items)");
  detail::check_batch_run(in.data, detail::bytes_of(in.elements_per_item, sizeof(In)), out.data,
                          detail::bytes_of(out.elements_per_item, sizeof(Out)), in.items,
                          batch_items, where);
  batch_run done;
  if (in.items == 0) return done;
  std::uint64_t const start = detail::monotonic_nanoseconds();
  auto const seconds_since = [](std::uint64_t begin) {
    return 1e-9 * static_cast<double>(detail::monotonic_nanoseconds() - begin);
  };
  std::size_t const room = batch_items < in.items ? batch_items : in.items;
  auto const rest = [&in, room](std::size_t batch) {
    std::size_t const left = in.items - batch * room;
    return left < room ? left : room;
  };
  std::size_t const batches = (in.items - 1) / room + 1;
  // No more slots and threads than batches; options out of range are refused below.
  prefetch_options fixed = options.max_bytes(0).depth(options.first_depth());
  if (options.first_depth() > batches && options.first_depth() <= prefetch_options::max_depth) {
    fixed = fixed.depth(batches < 2 ? 2 : static_cast<unsigned>(batches));
  }
  if (options.workers() > batches && options.workers() < prefetch_options::max_depth) {
    fixed = fixed.workers(static_cast<unsigned>(batches));
  }
  prefetcher<In> items{pool,
                       pinned,
                       room * in.elements_per_item,
                       [&](In* to, std::size_t batch) -> std::size_t {
                         if (batch >= batches) return 0;
                         std::size_t const elements = rest(batch) * in.elements_per_item;
                         std::memcpy(static_cast<void*>(to),
                                     in.data + batch * room * in.elements_per_item,
                                     elements * sizeof(In));
                         return elements;
                       },
                       fixed,
                       where};
  result_collector<Out> results{
      pool,
      pinned,
      room * out.elements_per_item,
      [&](Out const* from, std::size_t elements, std::size_t batch) {
        std::memcpy(static_cast<void*>(out.data + batch * room * out.elements_per_item), from,
                    elements * sizeof(Out));
      },
      fixed,
      where};
  while (prefetched<In> const batch = items.next(stream, where)) {
    if (done.items == 0) done.first_batch_seconds = seconds_since(start);
    result_slot<Out> result = results.next(stream, where);
    std::size_t const count = batch.size() / in.elements_per_item;
    result.set_size(count * out.elements_per_item, where);
    f(stream, static_cast<In const*>(batch.data()), result.data(), count);
    done.items += count;
  }
  results.finish();
  done.input = items.statistics();
  done.results = results.statistics();
  // To take the items was done when the ring had the last ones, and not when they were worked on.
  done.input.seconds = done.results.seconds;
  done.input.first_bytes = 0;
  done.seconds = seconds_since(start);
  return done;
}

WARPWRIGHT_END
