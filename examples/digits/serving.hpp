// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Classifies a long series of images in ordinary memory: copied to the device ahead, classified by
// a graph for each slot of the ring, and the labels copied back behind.
#pragma once

#include "network.hpp"

#include <warpwright/graph/graph_cache.hpp>
#include <warpwright/memory/pinned.hpp>
#include <warpwright/memory/staging.hpp>
#include <warpwright/stream/run_in_batches.hpp>
#include <warpwright/stream/stream_pool.hpp>

#include <cstdint>
#include <vector>

namespace digits {

/// The resources shared by all parts of a run, destroyed in reverse order.
struct resources {
  explicit resources(ww::device_id device)
      : streams{device, 2},
        memory{device},
        staging{pinned, ww::staging_options{}.slot_bytes(std::size_t{1} << 20U)} {}
  ww::stream_pool streams;  // destroyed last, as memory is freed on its streams
  ww::memory_pool memory;
  ww::pinned_pool pinned;
  ww::staging staging;
};

/// One warm-up, for what libraries allocate at their first use. Whether a graph is faster is
/// measured and reported by the program itself.
inline ww::graph_cache_options inference_graphs() {
  return ww::graph_cache_options{}.warmups(1).cost_gate(false);
}

/// Runs the network on a batch through a cache: what changes from call to call is an argument.
inline ww::graph_step run_inference(ww::graph_cache& graphs, inference& infer,
                                    ww::stream_ref stream, float const* parameters,
                                    float const* images, std::int32_t* labels, std::size_t batch) {
  auto const step = [&infer](ww::stream_ref, float const* weights, float const* from,
                             std::int32_t* to,
                             std::size_t count) { infer.run(weights, from, to, count); };
  return graphs.run(stream, {batch}, step, parameters, images, labels, batch);
}

/// The result of serve().
struct serving_result {
  ww::batch_run run;
  std::size_t wrong = 0;  ///< labels that differ from the expected ones
};

/// Classifies `count` images in batches: those of the data, repeated as needed.
/// @param parameters  in device memory
/// @param expected    the expected label of each image of the data
/// @param around      calls what it is given: first a few batches that warm up, then all
template <class Around>
serving_result serve(resources& shared, float const* parameters, std::size_t batch,
                     std::size_t count, dataset const& data,
                     std::vector<std::int32_t> const& expected, Around const& around) {
  std::vector<float> images(count * image_pixels);
  for (std::size_t i = 0; i < images.size(); ++i) images[i] = data.pixels[i % data.pixels.size()];
  std::vector<std::int32_t> labels(count);

  ww::prefetch_options const ring{};
  ww::stream_lease const lease = shared.streams.lease();
  multiplier multiply{shared.memory, lease};
  inference infer{shared.memory, multiply, batch};
  ww::graph_cache graphs{inference_graphs().variants(ring.first_depth())};
  auto const classify = [&](ww::stream_ref stream, float const* from, std::int32_t* to,
                            std::size_t size) {
    run_inference(graphs, infer, stream, parameters, from, to, size);
  };
  auto const run = [&](std::size_t of) {
    return ww::run_in_batches(lease.stream(), shared.memory, shared.pinned,
                              ww::batch_input<float>{images.data(), of, image_pixels}, batch,
                              classify, ww::batch_output<std::int32_t>{labels.data()}, ring);
  };
  // Page-locks memory for the rings and instantiates a graph a slot; the second call updates these.
  around([&] { run((ring.first_depth() + 1) * batch); });
  serving_result result;
  around([&] { result.run = run(count); });
  for (std::size_t i = 0; i < count; ++i) {
    result.wrong += labels[i] != expected[i % expected.size()] ? 1U : 0U;
  }
  return result;
}

}  // namespace digits
