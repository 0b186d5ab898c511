// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Serves a metrics page to Prometheus, with cpp-httplib:
//
//   metrics_server                 a test of itself: scrapes itself once, and ends
//   metrics_server 9400            serves http://127.0.0.1:9400/metrics until it is killed
//   metrics_server 9400 0.0.0.0    to every network: who reaches the port reads the page
#include <warpwright/memory/pool.hpp>
#include <warpwright/observe/metrics.hpp>
#include <warpwright/observe/step_timer.hpp>

#include <httplib.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>

namespace ww = warpwright;

namespace {

// A slow or rude client holds one of a few threads for some seconds, and no more than that.
void limit_clients(httplib::Server& server) {
  server.new_task_queue = [] { return new httplib::ThreadPool(4); };
  server.set_read_timeout(2, 0);
  server.set_write_timeout(2, 0);
  server.set_keep_alive_timeout(2);
  server.set_keep_alive_max_count(100);
  server.set_payload_max_length(1024);
}

// Sends the begin of a request, and then nothing.
bool half_a_request(int port) {
  int const handle = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<unsigned short>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  bool const sent = connect(handle, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                    send(handle, "GET /met", 8, MSG_NOSIGNAL) == 8;
  httplib::Client patient{"127.0.0.1", port};
  patient.set_read_timeout(10, 0);
  auto const answer = patient.Get("/metrics");
  close(handle);
  return sent && answer && answer->status == 200;
}

int run(int argc, char** argv) {
  int port = argc > 1 ? std::atoi(argv[1]) : 0;
  char const* const host = argc > 2 ? argv[2] : "127.0.0.1";

  ww::memory_pool pool{ww::device_id{0}};
  ww::stream const stream;
  ww::step_timer steps;
  // Behind its sources, so that it is destroyed before them.
  ww::metrics_page page;
  page.add("pool", pool, {{"device", "0"}});
  page.add("train", steps);
  ww::metric_counter const scrapes = page.counter("scrapes_total", "Pages served.");

  httplib::Server server;
  limit_clients(server);
  server.Get("/metrics", [&](httplib::Request const&, httplib::Response& response) {
    scrapes.add();
    response.set_content(page.to_prometheus(), ww::metrics_page::content_type);
  });
  if (port == 0) {
    port = server.bind_to_any_port(host);
  } else if (!server.bind_to_port(host, port)) {
    port = -1;
  }
  if (port < 0) {
    std::fprintf(stderr, "cannot listen on %s:%s: is another program there? give another port\n",
                 host, argc > 1 ? argv[1] : "any port");
    return 1;
  }
  std::printf("serving http://%s:%d/metrics\n", host, port);

  std::atomic<bool> stop{false};
  std::thread work{[&] {
    while (!stop) {
      void* const block = pool.allocate(stream, std::size_t{1} << 20U);
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
      pool.deallocate(stream, block, std::size_t{1} << 20U);
      steps.step(64);
    }
  }};
  if (argc > 1) {
    bool const ended_well = server.listen_after_bind();
    stop = true;
    work.join();
    return ended_well ? 0 : 1;
  }

  std::thread serving{[&server] { server.listen_after_bind(); }};
  httplib::Client client{"127.0.0.1", port};
  auto const answer = client.Get("/metrics");
  bool good = answer && answer->status == 200 &&
              answer->body.find("pool_live_bytes{device=\"0\"} ") != std::string::npos;
  if (answer) std::fputs(answer->body.c_str(), stdout);
  good = half_a_request(port) && good;
  server.stop();
  serving.join();
  stop = true;
  work.join();
  std::puts(good ? "served, beside a client that never ended its request" : "FAILED");
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
