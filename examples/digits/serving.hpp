// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Classifies a long stream of images: two streams, each with buffers, a captured graph and pinned
// room for the answers of its own, so that one copies while the other computes.
#pragma once

#include "network.hpp"

#include <warpwright/graph/capture.hpp>
#include <warpwright/memory/pinned.hpp>
#include <warpwright/memory/staging.hpp>
#include <warpwright/stream/stream_pool.hpp>

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace digits {

/// What all parts of a run share; destroyed from the last to the first.
struct resources {
  explicit resources(ww::device_id device)
      : streams{device, 3},
        memory{device},
        staging{pinned, ww::staging_options{}.slot_bytes(std::size_t{1} << 20U)} {}
  ww::stream_pool streams;  // the first to come and the last to go: memory is freed on its streams
  ww::memory_pool memory;
  ww::pinned_pool pinned;
  ww::staging staging;
};

namespace detail {

class lane {
 public:
  lane(resources& shared, float const* parameters, std::size_t batch, std::size_t most_answers)
      : lease_{shared.streams.lease()},
        multiply_{shared.memory, lease_},
        infer_{shared.memory, multiply_, batch},
        answers_{shared.pinned, lease_, most_answers},
        parameters_{parameters},
        batch_{batch} {}
  // An answer's copy may be under way when something else has failed.
  ~lane() { static_cast<void>(cudaStreamSynchronize(lease_.stream())); }
  lane(lane const&) = delete;
  lane& operator=(lane const&) = delete;

  /// Captures the graph, so that submit() only replays.
  void warm_up() {
    ew::run(lease_, ew::out(infer_.images(), batch_ * image_pixels) = 0.0F);
    for (int i = 0; i < 2; ++i) run_graph();
    lease_.stream().synchronize();
  }

  /// Copies `batch` images up, classifies them and copies the answers down; returns when the
  /// images have been read.
  void submit(ww::staging& staging, float const* images) {
    staging.copy_to_device(lease_, infer_.images(), images, batch_ * image_pixels * sizeof(float));
    run_graph();
    ww::check(
        cudaMemcpyAsync(answers_.data() + answered_, infer_.labels(), batch_ * sizeof(std::int32_t),
                        cudaMemcpyDeviceToHost, lease_.stream()),
        "cudaMemcpyAsync");
    answered_ += batch_;
  }

  void finish() const { lease_.stream().synchronize(); }
  [[nodiscard]] std::int32_t const* answers() const noexcept { return answers_.data(); }

 private:
  void run_graph() {
    graph_.run(lease_, [this](ww::capture_scope&) { infer_.run(parameters_, batch_); });
  }

  ww::stream_lease lease_;
  multiplier multiply_;
  inference infer_;
  ww::graph_replay graph_;
  ww::pinned_buffer<std::int32_t> answers_;
  float const* parameters_;
  std::size_t batch_;
  std::size_t answered_ = 0;
};

}  // namespace detail

/// What serving a stream of images took.
struct serving_result {
  std::size_t images = 0;
  double seconds = 0.0;
  std::size_t wrong = 0;  ///< answers that differ from the expected ones
};

/// Classifies the images in `batches` batches, again from the first after the last.
/// @param parameters  in device memory, written before
/// @param expected    an answer for each image, to compare with
inline serving_result serve(resources& shared, float const* parameters, std::size_t batch,
                            std::size_t batches, dataset const& data,
                            std::vector<std::int32_t> const& expected) {
  std::size_t const count = data.labels.size();
  // The images in a ring, long enough that every batch is one piece of pageable memory.
  std::vector<float> ring((count + batch) * image_pixels);
  for (std::size_t i = 0; i < ring.size(); ++i) ring[i] = data.pixels[i % data.pixels.size()];

  std::size_t const most_answers = (batches + 1) / 2 * batch;
  detail::lane first{shared, parameters, batch, most_answers};
  detail::lane second{shared, parameters, batch, most_answers};
  detail::lane* const lanes[] = {&first, &second};
  for (detail::lane* const each : lanes) each->warm_up();

  auto const begin = std::chrono::steady_clock::now();
  for (std::size_t k = 0; k < batches; ++k) {
    lanes[k % 2]->submit(shared.staging, ring.data() + k * batch % count * image_pixels);
  }
  for (detail::lane const* const each : lanes) each->finish();
  std::chrono::duration<double> const elapsed = std::chrono::steady_clock::now() - begin;

  serving_result result;
  result.images = batches * batch;
  result.seconds = elapsed.count();
  for (std::size_t k = 0; k < batches; ++k) {
    std::int32_t const* const answers = lanes[k % 2]->answers() + k / 2 * batch;
    for (std::size_t i = 0; i < batch; ++i) {
      result.wrong += answers[i] != expected[(k * batch + i) % count] ? 1U : 0U;
    }
  }
  return result;
}

}  // namespace digits
