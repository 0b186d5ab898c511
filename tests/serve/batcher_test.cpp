// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"

#include "support/sanitized.hpp"

#include <warpwright/kernel/evaluate.hpp>
#include <warpwright/serve/batcher.hpp>

#include <atomic>
#include <chrono>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

namespace ww = warpwright;
namespace ew = warpwright::ew;

namespace {

ww::latency_model const model = ww::latency_model::fit({{1, 1e-4, 2e-4, 0}, {64, 2e-4, 4e-4, 0}});
ww::batcher_options const on_host = ww::batcher_options{}.host_data();

using batch_of_int = ww::batch<int, int>;

void twice(batch_of_int& b, ww::stream_ref) {
  for (std::size_t i = 0; i < b.size(); ++i) b.outputs()[i] = 2 * b.inputs()[i];
}

/// Holds a model until it is opened.
class gate {
 public:
  void wait() {
    ++waiting_;
    while (!open_) std::this_thread::yield();
  }
  void open() { open_ = true; }
  void wait_for(int models) const {
    while (waiting_ < models) std::this_thread::yield();
  }

 private:
  std::atomic<int> waiting_{0};
  std::atomic<bool> open_{false};
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

static_assert(!std::is_copy_constructible<ww::ticket<int>>::value, "an answer has one owner");
static_assert(std::is_nothrow_move_constructible<ww::ticket<int>>::value, "");

}  // namespace

TEST_CASE("a model on the device gets the inputs, and its outputs are the answers") {
  ww::stream_pool streams{ww::current_device(), 2};
  ww::batcher<float, float> serve{ww::batcher_options{}.max_items(16).preferred({4, 16}), streams,
                                  model, [](ww::batch<float, float>& b, ww::stream_ref s) {
                                    ew::run(s, ew::out(b.outputs(), b.padded_size()) =
                                                   ew::in(b.inputs(), b.padded_size()) * 2.0F);
                                  }};
  std::vector<ww::ticket<float>> tickets;
  for (int i = 0; i < 100; ++i) tickets.push_back(serve.submit(static_cast<float>(i)));
  for (int i = 0; i < 100; ++i) {
    float const* const value = tickets[static_cast<std::size_t>(i)].wait();
    REQUIRE(value != nullptr);
    CHECK(*value == 2.0F * static_cast<float>(i));
    CHECK(tickets[static_cast<std::size_t>(i)].error().empty());
    CHECK(tickets[static_cast<std::size_t>(i)].seconds() > 0.0);
  }
  ww::batcher_statistics const s = serve.statistics();
  CHECK(s.answered == 100);
  CHECK(s.items == 100);
  CHECK(s.padded_items >= 100);
  CHECK(s.queued + s.running + s.late + s.shed + s.failed == 0);
}

TEST_CASE("lanes are made from pools, streams, leases and lists of them") {
  ww::stream_pool streams{ww::current_device(), 4};
  ww::stream const a;
  ww::stream const b;
  ww::stream_lease const lease = streams.lease();
  std::vector<ww::stream_ref> const refs{a, b};
  CHECK(ww::batch_lanes{streams}.size() == 2);
  CHECK(ww::batch_lanes{a}.size() == 1);
  CHECK(ww::batch_lanes{lease}.size() == 1);
  CHECK(ww::batch_lanes{refs}.size() == 2);
  CHECK(ww::batch_lanes{a, b, lease}.size() == 3);
  CHECK(ww::batch_lanes{streams, 3}.add(a).size() == 4);
  ww::batch_lanes const too_many{streams, 4};  // one is leased
  using batcher = ww::batcher<int, int>;
  CHECK_THROWS_WITH((batcher{on_host, too_many, model, twice}), contains("no free stream"));
  CHECK_THROWS_AS((batcher{on_host, ww::batch_lanes{}, model, twice}), std::invalid_argument);
  CHECK(streams.available() == 3);
}

TEST_CASE("requests of one key only are in a batch, and the model is told which") {
  ww::stream stream;
  gate g;
  std::atomic<bool> mixed{false};
  ww::batcher<int, int> serve{on_host, stream, model, [&](batch_of_int& b, ww::stream_ref s) {
                                g.wait();
                                for (std::size_t i = 0; i < b.size(); ++i) {
                                  ww::shape_key const own{b.inputs()[i] % 3};
                                  if (own != b.key()) mixed = true;
                                }
                                twice(b, s);
                              }};
  std::vector<ww::ticket<int>> tickets;
  for (int i = 0; i < 60; ++i) tickets.push_back(serve.submit(i, ww::request{}.key(i % 3)));
  g.wait_for(1);
  g.open();
  for (int i = 0; i < 60; ++i) CHECK(*tickets[static_cast<std::size_t>(i)].wait() == 2 * i);
  CHECK_FALSE(mixed);
  CHECK(serve.statistics().batches <= 4);
}

TEST_CASE("a request is answered late at its deadline, while the model blocks") {
  ww::stream stream;
  gate g;
  ww::batcher<int, int> serve{on_host, stream, model, [&](batch_of_int& b, ww::stream_ref s) {
                                g.wait();
                                twice(b, s);
                              }};
  ww::ticket<int> running = serve.submit(1, ww::request{}.deadline(1.0));
  g.wait_for(1);
  ww::ticket<int> patient = serve.submit(2);
  ww::ticket<int> queued = serve.submit(3, ww::request{}.deadline(50e-3));
  auto const begin = std::chrono::steady_clock::now();
  CHECK(queued.wait() == nullptr);
  double const took = seconds_since(begin);
  CHECK(took < 0.5);  // a millisecond where nothing else runs
  CHECK(queued.status() == ww::ticket_status::late);
  CHECK_THAT(queued.error(), contains("late: no answer within its deadline of 50"));
  CHECK(running.wait() == nullptr);
  CHECK(running.status() == ww::ticket_status::late);
  CHECK(patient.status() == ww::ticket_status::pending);
  CHECK(patient.wait_for(1e-3) == nullptr);
  CHECK_THAT(patient.error(), contains("pending"));
  g.open();
  CHECK(*patient.wait() == 4);
  CHECK(serve.statistics().late == 2);
  CHECK(serve.statistics().late_running == 1);
}

TEST_CASE("the first deadline of a batcher is kept while its lane is busy") {
  ww::stream stream;
  gate g;
  ww::batcher<int, int> serve{on_host, stream, model, [&](batch_of_int& b, ww::stream_ref s) {
                                g.wait();
                                twice(b, s);
                              }};
  ww::ticket<int> running = serve.submit(1);
  g.wait_for(1);
  auto const begin = std::chrono::steady_clock::now();
  CHECK(serve.submit(2, ww::request{}.deadline(20e-3)).wait() == nullptr);
  CHECK(seconds_since(begin) < 0.5);
  g.open();
  CHECK(*running.wait() == 2);
}

TEST_CASE("the deadline of a request that an attentive lane takes is kept") {
  for (int round = 0; round < 10; ++round) {
    ww::stream stream;
    gate g;
    ww::batcher<int, int> serve{on_host.max_items(1), stream, model,
                                [&](batch_of_int& b, ww::stream_ref s) {
                                  if (b.inputs()[0] == 7) g.wait();
                                  twice(b, s);
                                }};
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the timer waits by then
    for (int i = 0; i < 20; ++i) CHECK(*serve.submit(1).wait() == 2);
    ww::ticket<int> t = serve.submit(7, ww::request{}.deadline(20e-3));
    CHECK(t.wait_for(5.0) == nullptr);
    CHECK(t.status() == ww::ticket_status::late);
    g.open();
  }
}

TEST_CASE("a batch that was to take no time, and blocks, delays nobody") {
  ww::stream_pool streams{ww::current_device(), 2};
  gate g;
  std::atomic<int> ran{0};
  auto const brief = ww::latency_model::fit({{1, 1e-6, 2e-6, 0}, {64, 2e-6, 4e-6, 0}});
  ww::batcher<int, int> serve{on_host.max_items(1), ww::batch_lanes{streams, 2}, brief,
                              [&](batch_of_int& b, ww::stream_ref s) {
                                if (b.inputs()[0] == 7) g.wait();
                                twice(b, s);
                                ++ran;
                              }};
  ww::ticket<int> const blocked = serve.submit(7);
  g.wait_for(1);
  { ww::ticket<int> const dropped = serve.submit(1); }
  auto const begin = std::chrono::steady_clock::now();
  while (ran == 0 && seconds_since(begin) < 10.0) std::this_thread::yield();
  CHECK(ran == 1);
  ww::ticket<int> late = serve.submit(2, ww::request{}.deadline(-1.0));
  late.cancel();
  CHECK(late.status() == ww::ticket_status::late);
  g.open();
}

TEST_CASE("a second lane is woken for what the first one leaves") {
  ww::stream_pool streams{ww::current_device(), 2};
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  ww::batcher<int, int> serve{on_host.choose_lane(ww::lane_choice::round_robin), streams, model,
                              [&](batch_of_int& b, ww::stream_ref s) {
                                most = std::max<int>(most, ++inside);
                                std::this_thread::sleep_for(std::chrono::milliseconds(20));
                                --inside;
                                twice(b, s);
                              }};
  for (int round = 0; round < 5 && most < 2; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // both lanes sleep
    ww::ticket<int> a = serve.submit(1, ww::request{}.key(1));
    ww::ticket<int> b = serve.submit(2, ww::request{}.key(2));
    CHECK(a.wait() != nullptr);
    CHECK(b.wait() != nullptr);
  }
  CHECK(most == 2);
}

TEST_CASE("what is predicted to be late is shed at once, with when to come again") {
  ww::stream stream;
  gate g;
  auto const slow = ww::latency_model::fit({{1, 1.0, 1.0, 0}});
  ww::batcher<int, int> serve{on_host.max_items(1), stream, slow,
                              [&](batch_of_int& b, ww::stream_ref s) {
                                g.wait();
                                twice(b, s);
                              }};
  ww::ticket<int> first = serve.submit(1);
  g.wait_for(1);
  ww::ticket<int> second = serve.submit(2, ww::request{}.deadline(0.1));
  CHECK(second.wait() == nullptr);
  CHECK(second.status() == ww::ticket_status::shed);
  CHECK(second.retry_after() > 0.5);
  CHECK_THAT(second.error(), contains("its deadline is 100") && contains("try again in"));
  ww::ticket<int> over = serve.submit(3, ww::request{}.deadline(-1.0));
  CHECK(over.status() == ww::ticket_status::late);
  CHECK(serve.statistics().shed_predicted == 1);
  g.open();
  CHECK(*first.wait() == 2);
}

TEST_CASE("a full batcher refuses, or waits for room") {
  ww::stream stream;
  gate g;
  auto const hold = [&](batch_of_int& b, ww::stream_ref s) {
    g.wait();
    twice(b, s);
  };
  {
    ww::batcher<int, int> serve{on_host.limit_items(1), stream, model, hold};
    ww::ticket<int> first = serve.submit(1);
    ww::ticket<int> second = serve.submit(2);
    CHECK(second.status() == ww::ticket_status::shed);
    CHECK_THAT(second.error(), contains("a limit of requests, bytes or cost is reached"));
    g.open();
    CHECK(first.wait() != nullptr);
    CHECK(*serve.submit(3).wait() == 6);
  }
  gate h;
  ww::batcher<int, int> serve{on_host.limit_items(1).max_block(0.02), stream, model,
                              [&](batch_of_int& b, ww::stream_ref s) {
                                h.wait();
                                twice(b, s);
                              }};
  ww::ticket<int> first = serve.submit(1);
  auto const begin = std::chrono::steady_clock::now();
  CHECK(serve.submit(2).status() == ww::ticket_status::shed);
  CHECK(seconds_since(begin) >= 0.02);
  CHECK(serve.submit(2, ww::request{}.deadline(1e-3)).status() == ww::ticket_status::late);
  h.open();
  CHECK(first.wait() != nullptr);
  CHECK(*serve.submit(3).wait() == 6);
  {  // a cancelled request makes room
    gate k;
    ww::batcher<int, int> two{on_host.limit_items(2).max_block(20.0), stream, model,
                              [&](batch_of_int& b, ww::stream_ref s) {
                                k.wait();
                                twice(b, s);
                              }};
    ww::ticket<int> running = two.submit(1);
    k.wait_for(1);
    ww::ticket<int> queued = two.submit(2);
    std::thread waits{[&] {
      ww::ticket<int> third = two.submit(3);
      CHECK(third.status() == ww::ticket_status::pending);
    }};
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    auto const begun = std::chrono::steady_clock::now();
    queued.cancel();
    waits.join();
    CHECK(seconds_since(begun) < 10.0);
    k.open();
  }
  using batcher = ww::batcher<int, int>;
  CHECK_THROWS_WITH((batcher{on_host.limit_bytes(7), stream, model, twice}),
                    contains("limit_bytes of 7") && contains("8"));
}

TEST_CASE("what a model throws fails its batch alone; bisection finds the request") {
  ww::stream stream;
  for (bool const bisect : {false, true}) {
    CAPTURE(bisect);
    gate g;
    ww::batcher<int, int> serve{on_host.bisect(bisect), stream, model,
                                [&](batch_of_int& b, ww::stream_ref s) {
                                  g.wait();
                                  for (std::size_t i = 0; i < b.size(); ++i) {
                                    if (b.inputs()[i] == 13) throw std::runtime_error{"poison"};
                                  }
                                  twice(b, s);
                                }};
    ww::ticket<int> alone = serve.submit(1);
    g.wait_for(1);
    std::vector<ww::ticket<int>> tickets;
    for (int i = 10; i < 20; ++i) tickets.push_back(serve.submit(i));
    g.open();
    CHECK(*alone.wait() == 2);
    for (int i = 10; i < 20; ++i) {
      ww::ticket<int>& t = tickets[static_cast<std::size_t>(i - 10)];
      int const* const value = t.wait();
      if (bisect && i != 13) {
        REQUIRE(value != nullptr);
        CHECK(*value == 2 * i);
      } else {
        CHECK(value == nullptr);
        CHECK(t.status() == ww::ticket_status::failed);
        CHECK(t.error() == "failed: poison");
      }
    }
    CHECK(serve.statistics().failed == (bisect ? 1 : 10));
    CHECK(*serve.submit(5).wait() == 10);
  }
}

TEST_CASE("a model fails one request, or gives the wrong number of results") {
  ww::stream stream;
  ww::batcher<int, int> serve{on_host, stream, model, [](batch_of_int& b, ww::stream_ref s) {
                                twice(b, s);
                                for (std::size_t i = 0; i < b.size(); ++i) {
                                  if (b.inputs()[i] == 7) b.fail(i, "seven");
                                  if (b.inputs()[i] == 8) b.set_results(b.size() + 1);
                                  if (b.inputs()[i] == 9) b.fail(b.size(), "none");
                                }
                              }};
  ww::ticket<int> seven = serve.submit(7);
  CHECK(seven.wait() == nullptr);
  CHECK(seven.error() == "failed: seven");
  ww::ticket<int> eight = serve.submit(8);
  CHECK(eight.wait() == nullptr);
  CHECK_THAT(eight.error(), contains("the model gave 2 results for 1 request"));
  ww::ticket<int> nine = serve.submit(9);
  CHECK(nine.wait() == nullptr);
  CHECK_THAT(nine.error(), contains("fail(1) of a batch of 1"));
  CHECK(*serve.submit(10).wait() == 20);
}

TEST_CASE("a request is cancelled in the queue, in a batch, and not after its answer") {
  ww::stream stream;
  gate g;
  ww::batcher<int, int> serve{on_host, stream, model, [&](batch_of_int& b, ww::stream_ref s) {
                                g.wait();
                                twice(b, s);
                              }};
  ww::ticket<int> running = serve.submit(1, ww::request{}.deadline(10.0));
  g.wait_for(1);
  ww::ticket<int> queued = serve.submit(2);
  ww::ticket<int> other = serve.submit(3);
  queued.cancel();
  queued.cancel();
  running.cancel();
  CHECK(queued.wait() == nullptr);
  CHECK(queued.status() == ww::ticket_status::cancelled);
  CHECK(running.wait() == nullptr);
  CHECK(running.status() == ww::ticket_status::cancelled);
  g.open();
  CHECK(*other.wait() == 6);
  other.cancel();
  CHECK(other.status() == ww::ticket_status::answered);
  CHECK(serve.statistics().cancelled == 2);
  CHECK(serve.statistics().answered == 1);
  ww::ticket<int> none;
  none.cancel();
  CHECK(none.wait() == nullptr);
}

TEST_CASE("a drain answers everything once, and refuses what comes later") {
  ww::stream stream;
  ww::batcher<int, int> serve{on_host, stream, model, twice};
  std::vector<ww::ticket<int>> tickets;
  for (int i = 0; i < 10000; ++i) tickets.push_back(serve.submit(i));
  ww::drain_report const drained = serve.drain(60.0);
  CHECK(drained.closing == 0);
  CHECK(drained.stuck_batches == 0);
  for (int i = 0; i < 10000; ++i) {
    ww::ticket<int>& t = tickets[static_cast<std::size_t>(i)];
    REQUIRE(t.status() == ww::ticket_status::answered);
    REQUIRE(*t.wait() == 2 * i);
  }
  CHECK(serve.statistics().answered == 10000);
  ww::ticket<int> const after = serve.submit(1);
  CHECK(after.status() == ww::ticket_status::closing);
  CHECK_THAT(after.error(), contains("closing: the batcher was drained"));
  CHECK(serve.drain(60.0).seconds < 5.0);  // microseconds
}

TEST_CASE("behind a drain no answer is still under way") {
  ww::stream stream;
  std::size_t pending = 0;
  for (int round = 0; round < 200; ++round) {
    ww::batcher<int, int> serve{on_host, stream, model, twice};
    std::vector<ww::ticket<int>> tickets;
    for (int i = 0; i < 64; ++i) tickets.push_back(serve.submit(i));
    serve.drain(60.0);
    for (ww::ticket<int> const& t : tickets)
      pending += t.status() == ww::ticket_status::answered ? 0U : 1U;
    ww::batcher_statistics const s = serve.statistics();
    static_cast<void>(serve.submit(1));
    CHECK(serve.statistics().submitted == s.submitted + 1);
  }
  CHECK(pending == 0);
}

TEST_CASE("tickets may be asked while the batcher ends") {
  for (int round = 0; round < 50; ++round) {
    ww::stream stream;
    std::vector<ww::ticket<int>> tickets;
    std::thread asks;
    {
      ww::batcher<int, int> serve{on_host, stream, model, twice};
      for (int i = 0; i < 20; ++i) tickets.push_back(serve.submit(i));
      asks = std::thread{[&] {
        for (ww::ticket<int>& t : tickets) {
          while (t.status() == ww::ticket_status::pending) t.cancel();
        }
      }};
    }
    asks.join();
  }
}

TEST_CASE("a drain ends the delays, and a request above a limit is refused without a wait") {
  ww::stream stream;
  ww::batcher<int, int> serve{on_host.max_items(4).max_delay(60.0).limit_cost(2.0).max_block(60.0),
                              stream, model, twice};
  ww::ticket<int> waits = serve.submit(1);
  ww::ticket<int> const large = serve.submit(1, ww::request{}.cost(3.0));
  CHECK_THAT(large.error(), contains("it alone is above limit_bytes or limit_cost"));
  CHECK(large.retry_after() == 1e300);
  CHECK(serve.drain(30.0).closing == 0);
  CHECK(*waits.wait() == 2);
}

TEST_CASE("a drain that is too short answers with closing, also what runs") {
  ww::stream stream;
  gate g;
  ww::batcher<int, int> serve{on_host.watchdog(0.01), stream, model,
                              [&](batch_of_int& b, ww::stream_ref s) {
                                g.wait();
                                twice(b, s);
                              }};
  ww::ticket<int> running = serve.submit(1);
  g.wait_for(1);
  ww::ticket<int> queued = serve.submit(2, ww::request{}.deadline(100.0));
  ww::drain_report const drained = serve.drain(0.05);
  CHECK(drained.closing == 2);
  CHECK(drained.stuck_batches == 1);
  CHECK_THAT(drained.to_text(), contains("2 of them with `closing`; 1 batch still runs"));
  CHECK(running.status() == ww::ticket_status::closing);
  CHECK(queued.status() == ww::ticket_status::closing);
  for (int i = 0; i < 5000 && serve.statistics().overdue_batches == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(serve.statistics().overdue_batches == 1);  // named on stderr
  g.open();
}

TEST_CASE("a drain by a model is refused, a request by one is not") {
  ww::stream stream;
  ww::batcher<int, int>* self = nullptr;
  std::vector<ww::ticket<int>> inner;
  ww::batcher<int, int> serve{on_host, stream, model, [&](batch_of_int& b, ww::stream_ref s) {
                                if (b.inputs()[0] == 1) inner.push_back(self->submit(2));
                                if (b.inputs()[0] == 3) self->drain(1.0);
                                twice(b, s);
                              }};
  self = &serve;
  CHECK(*serve.submit(1).wait() == 2);
  CHECK(*inner.at(0).wait() == 4);
  ww::ticket<int> three = serve.submit(3);
  CHECK(three.wait() == nullptr);
  CHECK_THAT(three.error(), contains("drain() by a model"));
}

TEST_CASE("tickets outlive the batcher, which answers them before it ends") {
  std::vector<ww::ticket<int>> tickets;
  {
    ww::stream stream;
    ww::batcher<int, int> serve{on_host, stream, model, twice};
    for (int i = 0; i < 300; ++i) tickets.push_back(serve.submit(i));
    tickets.erase(tickets.begin(), tickets.begin() + 10);  // dropped: nobody waits
  }
  for (int i = 10; i < 300; ++i) CHECK(*tickets[static_cast<std::size_t>(i - 10)].wait() == 2 * i);
}

TEST_CASE("of a long stream of requests none waits for its deadline") {
  ww::stream stream;
  ww::batcher<int, int> serve{
      on_host, stream, ww::latency_model::fit({{1, 1e-6, 2e-6, 0}, {64, 2e-6, 4e-6, 0}}), twice};
  std::vector<ww::ticket<int>> tickets(256);
  std::size_t lost = 0;
  for (int i = 0; i < 200000; ++i) {
    ww::ticket<int>& t = tickets[static_cast<std::size_t>(i) % 256];
    if (i >= 256 && t.wait() == nullptr) ++lost;
    t = serve.submit(i, ww::request{}.deadline(i % 2 == 0 ? 5.0 : 60.0));
    if (i % 1000 == 999) static_cast<void>(serve.statistics());
  }
  CHECK(lost == 0);
}

TEST_CASE("a timer that takes requests out of the inbox leaves none of them behind") {
  ww::stream stream;
  ww::batcher<int, int> serve{on_host, stream, ww::latency_model::fit({{1, 1e-6, 2e-6, 0}}), twice};
  std::size_t lost = 0;
  for (int i = 0; i < 30000; ++i) {
    ww::ticket<int> const soon = serve.submit(i, ww::request{}.deadline(5e-6));
    ww::ticket<int> later = serve.submit(i, ww::request{}.deadline(2.0));
    if (later.wait() == nullptr) ++lost;
  }
  CHECK(lost == 0);
}

TEST_CASE("statistics are a table and a JSON object") {
  ww::stream stream;
  ww::batcher<int, int> serve{on_host.preferred({8}), stream, model, twice};
  CHECK(*serve.submit(1).wait() == 2);
  ww::batcher_statistics const s = serve.statistics();
  CHECK(s.padding_share() == Approx(0.875));
  CHECK(s.mean_batch() == 1.0);
  CHECK_THAT(s.to_text(), contains("requests    1: 1 answered") && contains("87.5 % padding"));
  CHECK_THAT(s.to_json(), contains("\"submitted\": 1, \"answered\": 1,") &&
                              contains("\"sizes\": [1, 0,") && contains("\"busy_seconds\": "));
}

TEST_CASE("several threads submit, cancel, wait and drop, and each request ends once") {
  unsigned const seed = std::random_device{}();
  CAPTURE(seed);
  ww::stream_pool streams{ww::current_device(), 3};
  std::atomic<std::size_t> wrong{0};
  std::atomic<std::size_t> submitted{0};
  ww::batcher<int, int> serve{on_host.max_items(16).limit_items(200).full(ww::when_full::shed),
                              ww::batch_lanes{streams, 3}, model,
                              [&](batch_of_int& b, ww::stream_ref s) {
                                if (b.inputs()[0] % 97 == 0) throw std::runtime_error{"poison"};
                                twice(b, s);
                              }};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random{seed + t};
      std::vector<std::pair<int, ww::ticket<int>>> held;
      for (int i = 0; i < (WARPWRIGHT_NIGHTLY ? 1250000 : 3000); ++i) {
        int const value = static_cast<int>(random() % 100000);
        ww::request r = ww::request{}.key(value % 3).priority(value % 4);
        if (value % 2 == 0) r = r.deadline(1e-4 * static_cast<double>(1 + value % 50));
        held.emplace_back(value, serve.submit(value, r));
        ++submitted;
        if (held.size() < 20) continue;
        std::size_t const at = random() % held.size();
        if (random() % 4 == 0) held[at].second.cancel();
        if (random() % 4 != 0) {
          int const* const answer = held[at].second.wait();
          if (answer != nullptr && *answer != 2 * held[at].first) ++wrong;
          if (answer == nullptr && held[at].second.error().empty()) ++wrong;
        }
        std::swap(held[at], held.back());
        held.pop_back();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(serve.drain(60.0).closing == 0);
  CHECK(wrong == 0);
  ww::batcher_statistics const s = serve.statistics();
  CHECK(s.submitted == submitted);
  CHECK(s.answered + s.late + s.shed + s.cancelled + s.failed == submitted);
  CHECK(s.running == 0);
}
