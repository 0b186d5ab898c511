// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What a checkpoint costs the steps of a training: of 1.6 GB (bfloat16 parameters, float copies and
// moments of AdamW), beside a step of some 60 ms. Times are between events behind each step.
//
//   train_checkpoints [FOLDER [SAVES]]     prints lines of CSV; bench/train/torch_checkpoint.py is
//   PyTorch's
#include <warpwright/core/device.hpp>
#include <warpwright/kernel/evaluate.hpp>
#include <warpwright/memory.hpp>
#include <warpwright/train/checkpoint.hpp>
#include <warpwright/train/optimizers.hpp>

#include <cuda_bf16.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace ww = warpwright;
namespace ew = warpwright::ew;

namespace {

#if defined(__CUDACC__)
constexpr std::size_t tensors = 200;
constexpr std::size_t elements_of_tensor = 571392;
constexpr int gradient_work = 450;
#else
constexpr std::size_t tensors = 20;
constexpr std::size_t elements_of_tensor = 5000;
constexpr int gradient_work = 5;
#endif

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Keeps a copy engine busy.
class other_copies {
 public:
  enum engine { none, to_device, to_host };
  explicit other_copies(engine busy) : busy_{busy} {}
  void enqueue(ww::memory_pool& pool) {
    if (busy_ == none) return;
    if (device_.size() == 0) device_ = ww::device_buffer<char>{pool, stream_, bytes};
    // A step's worth, so that it neither ends before the step nor lags behind.
    if (stream_.done()) {
      for (int i = 0; i < 8; ++i) {
        ww::check(
            cudaMemcpyAsync(device_.data(), host_, bytes, cudaMemcpyHostToDevice, stream_.get()),
            "cudaMemcpyAsync");
      }
    }
  }

 private:
  static constexpr std::size_t bytes = std::size_t{64} << 20U;
  engine busy_;
  ww::pinned_pool pinned_;
  void* host_ = pinned_.allocate(bytes);
  ww::stream stream_;
  ww::device_buffer<char> device_;
};

void measure(std::string const& folder, bool beside, other_copies::engine busy, int saves) {
  ww::stream stream;
  ww::memory_pool pool{ww::current_device()};
  std::size_t const all = tensors * elements_of_tensor;
  ww::device_buffer<__nv_bfloat16> values{pool, stream, 2 * all};
  ew::run(stream, ew::out(values.data(), 2 * all) = 0.01F);
  ww::tensor_list parameters;
  ww::tensor_list gradients;
  for (std::size_t i = 0; i < tensors; ++i) {
    std::string const name = "tensor" + std::to_string(i);
    parameters.add(name, values.data() + i * elements_of_tensor, elements_of_tensor);
    gradients.add(name, values.data() + all + i * elements_of_tensor, elements_of_tensor);
  }
  ww::adamw optimizer{pool, stream, parameters, ww::adamw_options{}.clip(1.0F)};
  ww::tensor_list state{parameters};
  optimizer.add_to(state);
  ww::checkpoint_writer saver{folder, ww::checkpoint_options{}.copy_beside(beside).keep(1)};
  std::uint64_t step = saver.restore(state);
  other_copies copies{busy};

  std::vector<double> plain;
  std::vector<double> blocked;
  std::vector<double> meanwhile;
  std::vector<double> written;
  ww::timed_event events[2];
  auto const run_step = [&] {
    copies.enqueue(pool);
    auto const g = ew::in(values.data() + all, all);
    for (int i = 0; i < gradient_work; ++i) {
      ew::run(stream, ew::out(values.data() + all, all) = ew::cast<__nv_bfloat16>(g * 1.0F));
    }
    saver.before_update(stream);
    optimizer.step(stream, gradients);
    events[step % 2].record(stream);
    events[step % 2].synchronize();
    double const ms =
        static_cast<double>(events[step % 2].milliseconds_since(events[1 - step % 2]));
    ++step;
    return ms;
  };
  events[0].record(stream);
  events[1].record(stream);
  stream.synchronize();
  for (int i = 0; i < 5; ++i) run_step();
  for (int i = 0; i < saves; ++i) {
    for (int k = 0; k < 10; ++k) plain.push_back(run_step());
    double const begin = seconds();
    ww::pending_save const save = saver.save(step, stream, state);
    blocked.push_back(run_step());
    while (!save.done()) meanwhile.push_back(run_step());
    written.push_back(seconds() - begin);
    if (!save.wait()) throw std::runtime_error{saver.error()};
    run_step();
  }
  double const usual = median(plain);
  double const bytes = static_cast<double>(state.bytes());
  char const* const names[] = {"none", "to device", "to host"};
  std::printf("warpwright,%s,%s,%.4g,%.2f,%.2f,%.2f,%.2f,%.4f,%.2f\n",
              beside ? "beside the next step" : "wait for the copy", names[busy], bytes, usual,
              median(blocked) - usual, *std::max_element(blocked.begin(), blocked.end()) - usual,
              beside ? 3.0 : bytes / 45e6 + 3.0,
              meanwhile.empty() ? 0.0 : median(meanwhile) / usual - 1.0, median(written));
  std::fflush(stdout);
}

// What the link allows: one copy of all bytes to page-locked memory.
void measure_copy() {
  ww::stream stream;
  ww::memory_pool pool{ww::current_device()};
  std::size_t const bytes = tensors * elements_of_tensor * 14;
  ww::device_buffer<char> device{pool, stream, bytes};
  ww::pinned_pool pinned;
  void* const host = pinned.allocate(bytes);
  ww::timed_event begin;
  ww::timed_event end;
  std::vector<double> times;
  for (int i = 0; i < 5; ++i) {
    begin.record(stream);
    ww::check(cudaMemcpyAsync(host, device.data(), bytes, cudaMemcpyDeviceToHost, stream.get()),
              "cudaMemcpyAsync");
    end.record(stream);
    end.synchronize();
    times.push_back(static_cast<double>(end.milliseconds_since(begin)));
  }
  std::printf("# one copy of all bytes takes %.2f ms, %.1f GB/s\n", median(times),
              static_cast<double>(bytes) / median(times) / 1e6);
  pinned.deallocate(host, bytes);
}

}  // namespace

int main(int argc, char** argv) try {
  std::string const folder = argc > 1 ? argv[1] : "train_checkpoints.tmp";
  int const saves = argc > 2 ? std::atoi(argv[2]) : 5;
  measure_copy();
  std::printf(
      "library,mode,busy_engine,bytes,step_ms,blocked_ms,most_blocked_ms,limit_ms,slower_meanwhile,"
      "written_s\n");
  for (auto const busy : {other_copies::none, other_copies::to_device, other_copies::to_host}) {
    for (bool const beside : {false, true}) {
      measure(folder, beside, busy, saves);
      std::filesystem::remove_all(folder);
    }
  }
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
