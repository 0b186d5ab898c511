// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What the service waits for, before and after: a plain loop of small batches, and the ring of
// serve() with graphs and the tuned batch, each recorded and judged in this run.
#pragma once

#include "paths.hpp"
#include "report.hpp"
#include "serving.hpp"

#include <warpwright/observe/diagnose.hpp>
#include <warpwright/observe/monitor.hpp>
#include <warpwright/observe/trace.hpp>

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace digits {

/// One of the two services.
struct diagnosed_service {
  std::string what;
  double images_per_s = 0.0;  ///< while it was recorded, which slows launches down
  std::string text;           ///< its diagnosis
  std::string trace_path;
};

namespace detail {

/// Records the second of two runs, and judges it.
/// @param serve  is called with a function that runs what it is given as a step
template <class Serve>
diagnosed_service diagnose_service(std::string what, std::string const& trace_path,
                                   std::size_t images, Serve const& serve) {
  ww::trace trace{ww::trace_options{}.schedule(0, 1, 1)};
  ww::monitor const gpu{ww::monitor_options{}.every(0.1)};
  std::chrono::duration<double> elapsed{};
  serve([&](auto const& run) {
    auto const step = trace.step();
    auto const begin = std::chrono::steady_clock::now();
    run();
    elapsed = std::chrono::steady_clock::now() - begin;
  });
  trace.write_chrome(trace_path.c_str());
  auto known = ww::evidence{}.add(trace);
  if (gpu.unavailable().empty()) known.add(gpu);
  return {std::move(what), static_cast<double>(images) / elapsed.count(),
          ww::diagnose(known).to_text(), trace_path};
}

}  // namespace detail

/// Classifies the same images as programs often do at first and as serve() does.
/// @param parameters  in device memory
/// @param batch       the tuned batch size
/// @param expected    the expected label of each image of the data
/// @param report      traces are written beside it
inline std::vector<diagnosed_service> diagnose_services(resources& shared, multiplier& multiply,
                                                        float const* parameters,
                                                        dataset const& data, std::size_t batch,
                                                        std::vector<std::int32_t> const& expected,
                                                        std::string const& report) {
  constexpr std::size_t small = 32;
  ww::stream_ref const stream = multiply.stream();
  buffered_inference infer{shared.memory, multiply, small};
  std::vector<std::int32_t> labels(data.labels.size() / small * small);
  // Of a batch: copied from pageable memory, a launch a kernel, and the host waits for the labels.
  auto const plain = [&] {
    for (std::size_t at = 0; at < labels.size(); at += small) {
      ww::span const batch_span{"batch", stream};
      ww::check(cudaMemcpyAsync(infer.images(), data.pixels.data() + at * image_pixels,
                                small * image_pixels * sizeof(float), cudaMemcpyHostToDevice,
                                stream.get()),
                "cudaMemcpyAsync");
      infer.run(parameters, small);
      ww::check(cudaMemcpyAsync(labels.data() + at, infer.labels(), small * sizeof(std::int32_t),
                                cudaMemcpyDeviceToHost, stream.get()),
                "cudaMemcpyAsync");
      stream.synchronize();
    }
  };
  std::vector<diagnosed_service> both;
  both.push_back(detail::diagnose_service(
      text::format("before: batches of %zu, one after another, a launch each kernel", small),
      trace_path(report, "before"), labels.size(), [&](auto const& as_step) {
        for (int turn = 0; turn < 2; ++turn) as_step(plain);
      }));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) wrong += labels[i] != expected[i] ? 1U : 0U;

  std::size_t const images = 20 * batch;
  both.push_back(detail::diagnose_service(
      text::format("after: prefetched batches of %zu, a graph each", batch),
      trace_path(report, "after"), images, [&](auto const& as_step) {
        wrong += serve(shared, parameters, batch, images, data, expected, as_step).wrong;
      }));
  if (wrong * 1000 > labels.size() + images) {
    throw std::runtime_error{std::to_string(wrong) +
                             " images were classified differently by the services diagnosed"};
  }
  return both;
}

/// Formats both for the terminal.
inline std::string diagnosis_text(std::vector<diagnosed_service> const& services) {
  std::string all = "\nwhat the service waits for, by a trace of it (open it in ui.perfetto.dev)\n";
  for (diagnosed_service const& each : services) {
    all += each.what + ": " + text::grouped(each.images_per_s) + " images/s, recorded in " +
           each.trace_path + '\n' + each.text;
  }
  return all;
}

}  // namespace digits
