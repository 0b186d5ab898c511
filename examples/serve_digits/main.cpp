// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A service that reads handwritten digits: an open-loop stream of requests with bursts, answered
// one by one, first come first served in batches, and by a batcher; then a clean end on SIGTERM.
//
//   serve_digits                       a second for each load
//   serve_digits --http 8080           serves POST /digit (64 numbers) on 127.0.0.1 until SIGTERM
#include "classifier.hpp"
#include "load.hpp"

#include <warpwright/core/device.hpp>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>

#if defined(SERVE_DIGITS_HTTP)
#include "http.hpp"
#endif

namespace {

namespace ww = warpwright;
using service::image;
using service::label;

volatile std::sig_atomic_t stop_requested = 0;
extern "C" void request_stop(int) { stop_requested = 1; }

// Ends the service: nobody is left without an answer.
void drain(ww::batcher<image, label>& server) {
  ww::drain_report const drained = server.drain(5.0);
  std::printf("drained: %s\n%s", drained.to_text().c_str(), server.statistics().to_text().c_str());
  if (drained.closing != 0) throw std::runtime_error{"the drain left requests without an answer"};
}

int run(int argc, char** argv) {
  char const* const port = argc == 3 && std::strcmp(argv[1], "--http") == 0 ? argv[2] : nullptr;
  double const seconds = argc == 2 ? std::atof(argv[1]) : 1.0;
  if (argc > 3 || (argc == 3 && port == nullptr) || !(seconds > 0.0)) {
    throw std::invalid_argument{"usage: serve_digits [SECONDS | --http PORT]"};
  }
  std::signal(SIGTERM, request_stop);
  ww::device_id const device = ww::current_device();
  std::printf("on %s\n", ww::get_device_info(device).name.c_str());
  digits::resources shared{device};
  ww::stream_pool streams{device, 3};
  ww::stream_lease const leases[] = {streams.lease(), streams.lease(), streams.lease()};
  digits::dataset const data = digits::read_dataset(DIGITS_DATA);
  std::vector<image> images(digits::image_count);
  std::memcpy(images.data(), data.pixels.data(), data.pixels.size() * sizeof(float));

  ww::device_buffer<float> parameters{shared.memory, leases[0], digits::parameter_count};
  service::train(shared, leases[0], data, parameters, 400);

  // A model for each lane, and one for what is measured without a batcher.
  constexpr std::size_t max_items = 64;
  service::classifier model0{shared, leases[0], parameters.data(), max_items};
  service::classifier model1{shared, leases[1], parameters.data(), max_items};
  service::classifier alone{shared, leases[2], parameters.data(), max_items};
  service::classifier* const models[] = {&model0, &model1};

  ww::tune_result const tuned = service::tune(shared, alone, max_items);
  ww::latency_model const latency = ww::latency_model::of_tune(tuned);
  std::size_t const batch = tuned.chosen().batch;
  double const deadline = std::max(10e-3, 5.0 * latency.upper(batch));
  std::printf("batches of up to %zu take %.3g ms; the deadline is %.3g ms\n", batch,
              1e3 * latency.median(batch), 1e3 * deadline);

  ww::batcher<image, label> server{
      ww::batcher_options{}.max_items(batch).preferred({1, batch / 8 + 1, batch / 2 + 1, batch}),
      {leases[0], leases[1]},
      latency,
      [&](ww::batch<image, label>& b, ww::stream_ref) {
        models[b.lane()]->run(b.inputs(), b.outputs(), b.padded_size());
      }};

  // What the network says of each image, and how many are right; it also captures the graphs.
  std::vector<label> expected;
  std::size_t right = 0;
  auto const begin = service::clock::now();
  {
    std::vector<ww::ticket<label>> tickets;
    for (image const& picture : images) tickets.push_back(server.submit(picture));
    for (ww::ticket<label>& t : tickets) {
      label const* const answer = t.wait();
      if (answer == nullptr) throw std::runtime_error{t.error()};
      right += *answer == data.labels[expected.size()] ? 1U : 0U;
      expected.push_back(*answer);
    }
  }
  std::printf("%zu of %zu digits read right, %.0f a second\n", right, images.size(),
              static_cast<double>(images.size()) / service::seconds_since(begin));
  if (right * 10 < images.size() * 9) throw std::runtime_error{"the network reads badly"};

#if defined(SERVE_DIGITS_HTTP)
  if (port != nullptr) {
    service::serve_http(server, std::atoi(port), deadline, [] { return stop_requested != 0; });
    drain(server);
    return 0;
  }
#endif
  if (port != nullptr) throw std::invalid_argument{"--http: built without cpp-httplib"};

  std::printf(
      "\nload  server              sent/s in time/s            p50 ms    p99 ms   batch   busy\n");
  double const capacity = latency.items_per_second(batch);
  std::size_t wrong = 0;
  for (double const load : {0.3, 0.8, 1.5, 3.0}) {
    std::vector<double> const times = service::arrivals(load * capacity, seconds, true);
    service::drive_queue<label>(shared.memory, alone, 1, images, times, deadline)
        .print(load, "one by one");
    service::drive_queue<label>(shared.memory, alone, batch, images, times, deadline)
        .print(load, "first come, batch");
    service::outcome o = service::drive_batcher(server, images, expected, times, deadline);
    o.print(load, "batcher");
    wrong += o.wrong;
  }
  if (wrong != 0) throw std::runtime_error{"answers differ from those of the same images before"};

  // A signal in the middle of a stream: what was taken is answered, what comes then is refused.
  std::vector<ww::ticket<label>> tickets;
  for (std::size_t i = 0; stop_requested == 0; ++i) {
    tickets.push_back(server.submit(images[i % images.size()]));
    if (i == 500) std::raise(SIGTERM);
  }
  std::printf("\nSIGTERM with %zu requests taken\n", tickets.size());
  drain(server);
  for (ww::ticket<label>& t : tickets) {
    if (t.wait() == nullptr) throw std::runtime_error{t.error()};
  }
  ww::ticket<label> const after = server.submit(images[0]);
  return after.status() == ww::ticket_status::closing ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  return run(argc, argv);
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
