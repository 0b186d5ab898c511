// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A batcher behind cpp-httplib, with a model that only sleeps: for http_peers.py.
// POST /inference with a whole number answers the number.
//
//   serve_http_server PORT BATCH_MS ITEM_MS MAX_BATCH DEADLINE_MS
#include <warpwright/core/device.hpp>
#include <warpwright/serve/batcher.hpp>
#include <warpwright/stream/stream_pool.hpp>

#include <httplib.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

namespace ww = warpwright;

volatile std::sig_atomic_t stop_requested = 0;
extern "C" void request_stop(int) { stop_requested = 1; }

int run(int port, double batch_seconds, double item_seconds, std::size_t most, double deadline) {
  auto const seconds = [=](std::size_t n) {
    return batch_seconds + item_seconds * static_cast<double>(n);
  };
  ww::stream_pool streams{ww::current_device(), 1};
  ww::batcher<int, int> server{
      ww::batcher_options{}.max_items(most).host_data(), ww::batch_lanes{streams, 1},
      ww::latency_model::fit(
          {{1, seconds(1), 1.05 * seconds(1), 0}, {most, seconds(most), 1.05 * seconds(most), 0}}),
      [&](ww::batch<int, int>& b, ww::stream_ref) {
        std::this_thread::sleep_for(std::chrono::duration<double>(seconds(b.size())));
        for (std::size_t i = 0; i < b.size(); ++i) b.outputs()[i] = b.inputs()[i];
      }};

  httplib::Server http;
  http.new_task_queue = [] { return new httplib::ThreadPool(512); };  // one for each connection
  http.set_keep_alive_max_count(1000000);
  http.set_keep_alive_timeout(60);
  http.set_tcp_nodelay(true);
  http.Post("/inference", [&](httplib::Request const& request, httplib::Response& response) {
    ww::ticket<int> t =
        server.submit(std::atoi(request.body.c_str()), ww::request{}.deadline(deadline));
    int const* const value = t.wait();
    if (value == nullptr) response.status = 503;
    response.set_content(value != nullptr ? std::to_string(*value) : t.error(), "text/plain");
  });
  if (!http.bind_to_port("127.0.0.1", port)) throw std::runtime_error{"cannot listen on the port"};
  std::signal(SIGTERM, request_stop);
  std::thread listener{[&] { http.listen_after_bind(); }};
  while (stop_requested == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  http.stop();
  listener.join();
  std::fputs(server.statistics().to_text().c_str(), stderr);
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 6) {
    throw std::invalid_argument{
        "usage: serve_http_server PORT BATCH_MS ITEM_MS MAX_BATCH DEADLINE_MS"};
  }
  return run(std::atoi(argv[1]), 1e-3 * std::atof(argv[2]), 1e-3 * std::atof(argv[3]),
             static_cast<std::size_t>(std::atoi(argv[4])), 1e-3 * std::atof(argv[5]));
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
