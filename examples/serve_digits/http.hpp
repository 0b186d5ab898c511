// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The batcher behind HTTP, with cpp-httplib: POST /digit with 64 numbers of 0 to 16.
#pragma once

#include "classifier.hpp"

#include <httplib.h>

#include <chrono>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>

namespace service {

inline void answer(ww::batcher<image, label>& server, double deadline,
                   httplib::Request const& request, httplib::Response& response) {
  image picture{};
  std::istringstream body{request.body};
  for (float& pixel : picture.pixels) {
    if (!(body >> pixel) || !(pixel >= 0.0F && pixel <= 16.0F)) {
      response.status = 400;
      response.set_content("send 64 numbers of 0 to 16\n", "text/plain");
      return;
    }
    pixel /= float{digits::pixel_max};
  }
  ww::ticket<label> t = server.submit(picture, ww::request{}.deadline(deadline));
  if (label const* const l = t.wait()) {
    response.set_content(std::to_string(*l) + '\n', "text/plain");
    return;
  }
  response.status = 503;
  response.set_header("Retry-After", std::to_string(static_cast<int>(t.retry_after()) + 1));
  response.set_content(t.error() + '\n', "text/plain");
}

/// Serves on 127.0.0.1 until `stops()`. Each connection has a thread that waits for its answer.
template <class Stops>
void serve_http(ww::batcher<image, label>& server, int port, double deadline, Stops const& stops) {
  httplib::Server http;
  http.new_task_queue = [] { return new httplib::ThreadPool(256); };  // one for each connection
  http.set_keep_alive_max_count(1000000);
  http.set_tcp_nodelay(true);
  http.set_read_timeout(2, 0);
  http.set_payload_max_length(4096);
  http.Post("/digit", [&](httplib::Request const& request, httplib::Response& response) {
    answer(server, deadline, request, response);
  });
  http.Get("/statistics", [&](httplib::Request const&, httplib::Response& response) {
    response.set_content(server.statistics().to_json(), "application/json");
  });
  if (!http.bind_to_port("127.0.0.1", port)) {
    throw std::runtime_error{"cannot listen on port " + std::to_string(port) +
                             ": is another program there? give another port"};
  }
  std::thread listener{[&] { http.listen_after_bind(); }};
  std::printf("http://127.0.0.1:%d/digit\n", port);
  std::fflush(stdout);
  while (!stops()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  http.stop();
  listener.join();
}

}  // namespace service
