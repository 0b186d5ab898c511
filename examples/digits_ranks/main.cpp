// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Data-parallel training on one GPU a rank, which survives the loss of a rank.
//
//   torchrun --nproc-per-node 2 --no-python digits_ranks RUN   trains, or goes on with what the
//   mpirun -n 2 digits_ranks RUN                               folder RUN has
//   digits_ranks                 shows it with processes of its own: two ranks and one end alike;
//   then a
//                                rank is killed, the other one names it, and both go on from the
//                                checkpoint
#include "../digits_train/network.hpp"
#include "../digits_train/processes.hpp"

#include <warpwright/core/device.hpp>
#include <warpwright/scale/gradient_reducer.hpp>
#include <warpwright/scale/rank_watch.hpp>
#include <warpwright/scale/sharded_indices.hpp>
#include <warpwright/train/checkpoint.hpp>
#include <warpwright/train/optimizers.hpp>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include <unistd.h>

namespace {

namespace ew = warpwright::ew;
namespace ww = warpwright;

constexpr int parts = 2;  // micro-batches of a step, on one rank or on two
constexpr std::uint64_t epochs = 20;
constexpr int lost_status = 3;

/// The samples of a step: the next ones of this epoch's order.
struct next_samples {
  mixed::position at;
  std::int32_t* samples;
  std::int32_t const* order;
  std::uint64_t steps;  // of an epoch
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    samples[i] = order[(static_cast<std::uint64_t>(*at.step) % steps) * mixed::micro_batch + i];
  }
};

struct next_step {
  std::int64_t* step;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t) const { ++*step; }
};

double accuracy_of(ww::memory_pool& pool, ww::stream_ref stream, ww::tensor_list const& parameters,
                   float const* pixels, digits::dataset const& data,
                   std::vector<std::int32_t> const& test) {
  ww::device_buffer<float> all{pool, stream, digits::parameter_count};
  std::size_t at = 0;
  for (ww::tensor const& t : parameters) {
    ew::run(stream, ew::out(all.data() + at, t.size) = ew::in(static_cast<float*>(t.data), t.size));
    at += t.size;
  }
  digits::multiplier multiply{pool, stream};
  digits::buffered_inference infer{pool, multiply, digits::image_count};
  infer.run(all.data(), pixels, infer.labels(), digits::image_count);
  std::vector<std::int32_t> found(digits::image_count);
  ww::check(cudaMemcpyAsync(found.data(), infer.labels(), found.size() * sizeof found[0],
                            cudaMemcpyDeviceToHost, stream.get()),
            "cudaMemcpyAsync");
  stream.synchronize();
  std::size_t right = 0;
  for (std::int32_t const i : test) {
    auto const k = static_cast<std::size_t>(i);
    right += found[k] == data.labels[k] ? 1U : 0U;
  }
  return static_cast<double>(right) / static_cast<double>(test.size());
}

void train(std::string const& folder, useconds_t pause_us) {
  ww::rendezvous const launched = ww::rendezvous::from_environment();
  ww::scoped_device const device{ww::device_id{launched.local_rank() % ww::device_count()}};
  ww::communicator comm{launched, ww::communicator_options{}.deadline(60.0)};
  ww::rank_watch const watch{comm, 10.0};
  ww::stream stream;
  ww::memory_pool pool{ww::current_device()};

  digits::dataset const data = digits::read_dataset(DIGITS_DATA);
  digits::random draw{1};  // the same on all ranks, and so the first parameters
  digits::split const split = digits::split_fifth(digits::image_count, draw);
  std::vector<float> const first = digits::initial_parameters(draw);
  ww::device_buffer<float> pixels{pool, stream, data.pixels.data(), data.pixels.size()};
  ww::device_buffer<std::int32_t> labels{pool, stream, data.labels.data(), data.labels.size()};
  ww::device_buffer<float> initial{pool, stream, first.data(), first.size()};

  mixed::network<float> network{pool, stream};
  network.set(stream, initial.data());
  ww::gradient_reducer reduce{comm, pool, stream, network.parameters};
  network.gradients.clear();
  network.gradients.add(reduce.gradients());
  ww::adamw optimizer{pool, stream, network.parameters,
                      ww::adamw_options{}.rate(4e-3F).decay(0.05F).warm_up(20).cosine(240, 0.02F)};
  ww::device_buffer<std::int64_t> count{pool, stream, 1};
  ew::run(stream, ew::out(count.data(), 1) = std::int64_t{0});
  ww::device_buffer<float> one{pool, stream, 1};
  ew::run(stream, ew::out(one.data(), 1) = 1.0F);

  ww::tensor_list state{network.parameters};
  optimizer.add_to(state);
  state.add("step", count.data(), 1);
  ww::checkpoint_writer saver{folder};
  std::uint64_t step = saver.restore(state);
  for (std::uint64_t const other : comm.gather(step)) {
    if (other != step) throw std::runtime_error{"the ranks have restored different steps"};
  }
  std::uint64_t const begin = step;
  std::uint64_t const steps_each = split.training.size() / parts / mixed::micro_batch;
  std::uint64_t const samples_each = steps_each * mixed::micro_batch;
  std::uint64_t const steps = epochs * steps_each;
  std::vector<std::int32_t> order;
  ww::device_buffer<std::int32_t> orders{pool, stream, parts * samples_each};
  std::vector<ww::device_buffer<float>> sums;  // of a rank that has several parts
  for (ww::tensor const& t : reduce.gradients()) sums.emplace_back(pool, stream, t.size);

  for (; step < steps; ++step) {
    if (step == begin || step % steps_each == 0) {
      order.clear();
      for (int part = 0; part < parts; ++part) {
        auto const epoch =
            ww::sharded_indices{split.training.size()}.seed(1).epoch(step / steps_each);
        std::uint64_t taken = 0;
        for (std::uint64_t i : epoch.part(part, parts)) {
          if (taken++ < samples_each) order.push_back(split.training[i]);
        }
      }
      stream.synchronize();  // the copy of before has read the vector
      orders.copy_from(stream, order.data(), order.size());
    }
    for (int part = comm.rank(); part < parts; part += comm.ranks()) {
      bool const is_last = part + comm.ranks() >= parts;
      auto const share = static_cast<float>(comm.ranks()) / parts;
      next_samples const samples{
          {}, nullptr, orders.data() + static_cast<std::uint64_t>(part) * samples_each, steps_each};
      network.backward(stream, {count.data(), static_cast<std::uint64_t>(part)}, pixels.data(),
                       labels.data(), samples, one.data(), false, [&](std::size_t i) {
                         ww::tensor const& t = reduce.gradients()[i];
                         auto const gradient = ew::in(static_cast<float*>(t.data), t.size);
                         if (!is_last) {
                           ew::run(stream, ew::out(sums[i].data(), t.size) = gradient);
                         } else {
                           if (part != comm.rank()) {
                             ew::run(stream,
                                     ew::out(static_cast<float*>(t.data), t.size) =
                                         (gradient + ew::in(sums[i].data(), t.size)) * share);
                           }
                           reduce.ready(stream, i);
                         }
                       });
    }
    reduce.finish(stream);
    optimizer.step(stream, reduce.gradients());
    ww::for_each_index(stream, 1, next_step{count.data()});
    if (step % 40 == 39 || step + 1 == steps) {
      comm.synchronize(stream);  // throws rather than save what a lost rank has left
      if (comm.rank() == 0 && !saver.save(step + 1, stream, state).wait()) {
        throw std::runtime_error{saver.error()};
      }
    }
    if (pause_us != 0) ::usleep(pause_us);
  }
  comm.barrier();
  if (comm.rank() != 0) return;
  ww::gradient_reducer_statistics const s = reduce.statistics();
  double const accuracy =
      accuracy_of(pool, stream, network.parameters, pixels.data(), data, split.test);
  std::printf(
      "%s: %d ranks, steps %llu to %llu, %.4f of the test images; %zu buckets, exposed "
      "communication %.0f of %.0f us a step\n",
      folder.c_str(), comm.ranks(), static_cast<unsigned long long>(begin),
      static_cast<unsigned long long>(steps), accuracy, s.buckets, s.exposed_seconds * 1e6,
      s.step_seconds * 1e6);
  processes::write(folder + "/accuracy", std::to_string(accuracy));
  processes::write(folder + "/run", std::to_string(begin));
}

std::vector<pid_t> start_ranks(std::string const& folder, int ranks, bool slowly) {
  static int runs = 0;
  std::string const port = std::to_string(12000 + (::getpid() % 1000) * 20 + ++runs);
  std::vector<pid_t> all;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<std::string> arguments{folder};
    if (slowly) arguments.push_back("--slowly");
    all.push_back(processes::start(
        arguments,
        {"RANK=" + std::to_string(rank), "LOCAL_RANK=" + std::to_string(rank),
         "WORLD_SIZE=" + std::to_string(ranks), "MASTER_ADDR=localhost", "MASTER_PORT=" + port}));
  }
  return all;
}

void run_ranks(std::string const& folder, int ranks) {
  for (pid_t const rank : start_ranks(folder, ranks, false)) {
    processes::expect_success(processes::wait(rank));
  }
}

void show() {
  processes::folder const all;
  std::string const single = all.path() + "/one";
  std::string const two = all.path() + "/two";
  std::string const disturbed = all.path() + "/disturbed";
  run_ranks(single, 1);
  run_ranks(two, 2);

  std::vector<pid_t> const ranks = start_ranks(disturbed, 2, true);
  while (processes::newest(disturbed).empty() && processes::is_running(ranks[1])) ::usleep(1000);
  ::kill(ranks[1], SIGKILL);
  processes::expect_end_by(processes::wait(ranks[1]), SIGKILL);
  int const status = processes::wait(ranks[0]);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != lost_status) {
    throw std::runtime_error{"rank 0 has not named the rank that was killed"};
  }
  run_ranks(disturbed, 2);
  if (std::atoi(processes::read(disturbed + "/run").c_str()) == 0) {
    throw std::runtime_error{"the run did not go on from its checkpoint"};
  }
  std::string const bits = processes::read(processes::newest(two));
  if (bits.empty() || processes::read(processes::newest(disturbed)) != bits) {
    throw std::runtime_error{"the disturbed run ends with other bits"};
  }
  double const expected = std::atof(processes::read(single + "/accuracy").c_str());
  double const accuracy = std::atof(processes::read(two + "/accuracy").c_str());
  if (expected < 0.96 || std::abs(accuracy - expected) > 0.003) {
    throw std::runtime_error{"two ranks end with another accuracy than one"};
  }
  std::printf("two ranks: %.4f, one: %.4f; the disturbed run ends with the bits of the other one\n",
              accuracy, expected);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc > 1) {
    train(argv[1], argc > 2 ? 2000 : 0);
    return 0;
  }
#if defined(__CUDACC__)
  if (ww::device_count() < 2) {
    std::printf("left out: two ranks need two GPUs\n");
    return 77;
  }
#endif
  show();
  return 0;
} catch (ww::rank_lost const& lost) {
  std::fprintf(stderr, "a rank is lost: %s\n", lost.what());
  return lost_status;
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
