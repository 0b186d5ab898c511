// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Classifies a long stream of images: two CUDA streams, each with buffers, a cache of graphs and
// pinned memory for the results, so that one copies while the other computes.
#pragma once

#include "network.hpp"

#include <warpwright/graph/graph_cache.hpp>
#include <warpwright/memory/pinned.hpp>
#include <warpwright/memory/staging.hpp>
#include <warpwright/stream/stream_pool.hpp>

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace digits {

/// The resources shared by all parts of a run, destroyed in reverse order.
struct resources {
  explicit resources(ww::device_id device)
      : streams{device, 3},
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
                                    std::size_t batch) {
  auto const step = [&infer](ww::stream_ref, float const* from, std::size_t images) {
    infer.run(from, images);
  };
  return graphs.run(stream, {batch}, step, parameters, batch);
}

namespace detail {

class pipeline {
 public:
  pipeline(resources& shared, float const* parameters, std::size_t batch,
           std::size_t max_predictions)
      : lease_{shared.streams.lease()},
        multiply_{shared.memory, lease_},
        infer_{shared.memory, multiply_, batch},
        predictions_{shared.pinned, lease_, max_predictions},
        parameters_{parameters},
        batch_{batch} {}
  // A copy of results may still run if an exception has been thrown.
  ~pipeline() { static_cast<void>(cudaStreamSynchronize(lease_.stream())); }
  pipeline(pipeline const&) = delete;
  pipeline& operator=(pipeline const&) = delete;

  /// Runs the step until it is captured, so that submit() only replays.
  void warm_up() {
    ew::run(lease_, ew::out(infer_.images(), batch_ * image_pixels) = 0.0F);
    for (int i = 0; i < 2; ++i) run_graph();
    lease_.stream().synchronize();
  }

  /// Copies `batch` images to the device, classifies them and copies the results back; returns when
  /// the images have been read.
  void submit(ww::staging& staging, float const* images) {
    staging.copy_to_device(lease_, infer_.images(), images, batch_ * image_pixels * sizeof(float));
    run_graph();
    ww::check(
        cudaMemcpyAsync(predictions_.data() + completed_, infer_.labels(),
                        batch_ * sizeof(std::int32_t), cudaMemcpyDeviceToHost, lease_.stream()),
        "cudaMemcpyAsync");
    completed_ += batch_;
  }

  void finish() const { lease_.stream().synchronize(); }
  [[nodiscard]] std::int32_t const* predictions() const noexcept { return predictions_.data(); }

 private:
  void run_graph() { run_inference(graphs_, infer_, lease_.stream(), parameters_, batch_); }

  ww::stream_lease lease_;
  multiplier multiply_;
  inference infer_;
  ww::graph_cache graphs_{inference_graphs()};  // destroyed before the memory that its graphs use
  ww::pinned_buffer<std::int32_t> predictions_;
  float const* parameters_;
  std::size_t batch_;
  std::size_t completed_ = 0;
};

}  // namespace detail

/// The result of serve().
struct serving_result {
  std::size_t images = 0;
  double seconds = 0.0;
  std::size_t wrong = 0;  ///< results that differ from the expected ones
};

/// Classifies the images in `batches` batches, repeating the images as needed.
/// @param parameters  in device memory
/// @param expected    the expected result of each image
inline serving_result serve(resources& shared, float const* parameters, std::size_t batch,
                            std::size_t batches, dataset const& data,
                            std::vector<std::int32_t> const& expected) {
  std::size_t const count = data.labels.size();
  // The images, repeated so that every batch is contiguous in pageable memory.
  std::vector<float> ring((count + batch) * image_pixels);
  for (std::size_t i = 0; i < ring.size(); ++i) ring[i] = data.pixels[i % data.pixels.size()];

  std::size_t const max_predictions = (batches + 1) / 2 * batch;
  detail::pipeline first{shared, parameters, batch, max_predictions};
  detail::pipeline second{shared, parameters, batch, max_predictions};
  detail::pipeline* const pipelines[] = {&first, &second};
  for (detail::pipeline* const pipeline : pipelines) pipeline->warm_up();

  auto const begin = std::chrono::steady_clock::now();
  for (std::size_t k = 0; k < batches; ++k) {
    pipelines[k % 2]->submit(shared.staging, ring.data() + k * batch % count * image_pixels);
  }
  for (detail::pipeline const* const pipeline : pipelines) pipeline->finish();
  std::chrono::duration<double> const elapsed = std::chrono::steady_clock::now() - begin;

  serving_result result;
  result.images = batches * batch;
  result.seconds = elapsed.count();
  for (std::size_t k = 0; k < batches; ++k) {
    std::int32_t const* const predictions = pipelines[k % 2]->predictions() + k / 2 * batch;
    for (std::size_t i = 0; i < batch; ++i) {
      result.wrong += predictions[i] != expected[(k * batch + i) % count] ? 1U : 0U;
    }
  }
  return result;
}

}  // namespace digits
