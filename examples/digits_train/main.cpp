// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Training in mixed precision that survives being killed: four micro-batches, clipping, a schedule
// and an average of the parameters in one captured graph.
//
//   digits_train RUN [--float]   trains, or goes on with what the folder RUN has; SIGTERM stops it
//   digits_train                 shows it: kills a run with SIGKILL, stops it with SIGTERM, and
//                                compares its last checkpoint with that of an undisturbed run
#include "network.hpp"
#include "processes.hpp"

#include <warpwright/core/device.hpp>
#include <warpwright/graph/graph_replay.hpp>
#include <warpwright/train/checkpoint.hpp>
#include <warpwright/train/gradients.hpp>
#include <warpwright/train/optimizers.hpp>
#include <warpwright/train/stop.hpp>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include <unistd.h>

namespace {

namespace ew = warpwright::ew;
namespace ww = warpwright;

constexpr std::uint64_t steps = 240;
constexpr std::uint64_t accumulation = 4;

struct next_step {
  std::int64_t* step;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t) const { ++*step; }
};

template <class T>
void train(std::string const& folder, useconds_t pause_us) {
  bool const overflows = !std::is_same_v<T, float>;
  ww::stop_signal stop{{SIGTERM, SIGINT}};
  ww::stream stream;
  ww::memory_pool pool{ww::current_device()};

  digits::dataset const data = digits::read_dataset(DIGITS_DATA);
  digits::random draw{1};
  digits::split const parts = digits::split_fifth(digits::image_count, draw);
  std::vector<float> const first = digits::initial_parameters(draw);
  ww::device_buffer<float> pixels{pool, stream, data.pixels.size()};
  ww::device_buffer<std::int32_t> labels{pool, stream, data.labels.size()};
  ww::device_buffer<std::int32_t> training{pool, stream, parts.training.size()};
  ww::device_buffer<float> initial{pool, stream, first.size()};
  pixels.copy_from(stream, data.pixels.data(), data.pixels.size());
  labels.copy_from(stream, data.labels.data(), data.labels.size());
  training.copy_from(stream, parts.training.data(), parts.training.size());
  initial.copy_from(stream, first.data(), first.size());

  mixed::network<T> network{pool, stream};
  network.set(stream, initial.data());
  ww::loss_scaler scaler{pool, stream, ww::loss_scaler_options{}.interval(8)};
  ww::gradient_accumulator sum{pool, stream, network.gradients};
  ww::adamw optimizer{
      pool, stream, network.parameters,
      ww::adamw_options{}.rate(4e-3F).decay(0.05F).clip(1.0F).warm_up(20).cosine(steps, 0.02F)};
  ww::ema average{pool, stream, network.parameters, 0.97F};
  ww::device_buffer<std::int64_t> count{pool, stream, 1};  // steps, also those that are skipped
  ew::run(stream, ew::out(count.data(), 1) = std::int64_t{0});

  ww::tensor_list state{network.parameters};  // all that the next step depends on
  scaler.add_to(state);
  optimizer.add_to(state);
  average.add_to(state);
  state.add("step", count.data(), 1);

  ww::checkpoint_writer saver{folder, ww::checkpoint_options{}.keep(2)};
  std::uint64_t step = saver.restore(state);
  std::printf("%s: from step %llu\n", folder.c_str(), static_cast<unsigned long long>(step));
  std::uint64_t const begin = step;
  ww::graph_replay graph;
  for (; step < steps && !stop.requested(); ++step) {
    graph.run(stream, [&](ww::stream_ref s) {
      sum.clear(s);
      for (std::uint64_t micro = 0; micro < accumulation; ++micro) {
        network.backward(s, {count.data(), micro}, pixels.data(), labels.data(),
                         {{}, training.data(), parts.training.size(), nullptr}, scaler.scale(),
                         overflows);
        sum.add(s, network.gradients, mixed::micro_batch);
      }
      optimizer.step(s, sum.gradients(), scaler);
      average.update(s);
      ww::for_each_index(s, 1, next_step{count.data()});
    });
    if (step % 40 == 39) saver.save(step + 1, stream, state);
    if (pause_us != 0) ::usleep(pause_us);
  }
  if (!saver.save(step, stream, state).wait()) throw std::runtime_error{saver.error()};
  processes::write(folder + "/run", std::to_string(begin) + " to " + std::to_string(step));
  ww::loss_scale_status const scale = scaler.status(stream);
  std::printf("%s: %s at step %llu, %llu skipped, scale %g\n", folder.c_str(),
              step == steps ? "ends" : stop.reason(), static_cast<unsigned long long>(step),
              static_cast<unsigned long long>(scale.skipped), static_cast<double>(scale.scale));
  if (step < steps) return;

  ww::device_buffer<float> averages{pool, stream, digits::parameter_count};
  std::size_t at = 0;
  for (ww::tensor const& t : average.averages()) {
    ew::run(stream,
            ew::out(averages.data() + at, t.size) = ew::in(static_cast<float*>(t.data), t.size));
    at += t.size;
  }
  digits::multiplier multiply{pool, stream};
  digits::buffered_inference infer{pool, multiply, digits::image_count};
  infer.run(averages.data(), pixels.data(), infer.labels(), digits::image_count);
  std::vector<std::int32_t> found(digits::image_count);
  ww::check(cudaMemcpyAsync(found.data(), infer.labels(), found.size() * sizeof found[0],
                            cudaMemcpyDeviceToHost, stream.get()),
            "cudaMemcpyAsync");
  stream.synchronize();
  std::size_t right = 0;
  for (std::int32_t const i : parts.test) {
    auto const k = static_cast<std::size_t>(i);
    right += found[k] == data.labels[k] ? 1U : 0U;
  }
  double const accuracy = static_cast<double>(right) / static_cast<double>(parts.test.size());
  std::printf("%s: %.4f of the test images\n", folder.c_str(), accuracy);
  processes::write(folder + "/accuracy", std::to_string(accuracy));
}

// Trains in processes of their own, one of which is disturbed.
void show() {
  processes::folder const all;
  std::string const single = all.path() + "/float";
  std::string const half = all.path() + "/half";
  std::string const disturbed = all.path() + "/disturbed";
  processes::expect_success(processes::wait(processes::start({single, "--float"})));
  processes::expect_success(processes::wait(processes::start({half})));

  std::string saved = processes::newest(disturbed);
  for (int const signal : {SIGKILL, SIGTERM}) {
    pid_t const child = processes::start({disturbed, "--slowly"});
    while (processes::newest(disturbed) == saved && processes::is_running(child)) ::usleep(1000);
    ::usleep(20000);
    ::kill(child, signal);
    processes::expect_end_by(processes::wait(child), signal);
    saved = processes::newest(disturbed);
  }
  std::string const stopped = processes::read(disturbed + "/run");
  processes::expect_success(processes::wait(processes::start({disturbed})));
  if (std::atoi(stopped.c_str()) == 0 ||
      processes::read(disturbed + "/run") !=
          stopped.substr(stopped.rfind(' ') + 1) + " to " + std::to_string(steps)) {
    throw std::runtime_error{"a run did not go on where the one before had ended"};
  }

  std::string const bits = processes::read(processes::newest(half));
  if (bits.empty() || processes::read(processes::newest(disturbed)) != bits) {
    throw std::runtime_error{"the disturbed run ends with other bits"};
  }
  std::printf("the disturbed run ends with the same bits as the undisturbed one\n");
  double const expected = std::atof(processes::read(single + "/accuracy").c_str());
  double const accuracy = std::atof(processes::read(half + "/accuracy").c_str());
  std::printf("float: %.4f, half with overflows in every 16th step: %.4f\n", expected, accuracy);
  if (expected < 0.96 || accuracy < expected - 0.005) {
    throw std::runtime_error{"mixed precision costs more than half a point"};
  }
}

}  // namespace

int main(int argc, char** argv) try {
  char const* const option = argc == 3 ? argv[2] : "";
  bool const slowly = std::strcmp(option, "--slowly") == 0;
  if (argc == 1) {
    show();
  } else if (std::strcmp(option, "--float") == 0) {
    train<float>(argv[1], 0);
  } else if (argc == 2 || slowly) {
    train<__half>(argv[1], slowly ? 10000 : 0);
  } else {
    throw std::invalid_argument{"usage: digits_train [RUN [--float]]"};
  }
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
