// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A training step that stays right as a graph over thousands of steps, though its learning rate and
// its batch change, some steps must be skipped, and evaluations run in between. Note that nothing
// that changes is captured by value, and that the result has the same bits as without graphs.
#include <warpwright/graph.hpp>
#include <warpwright/graph/graph_cache.hpp>
#include <warpwright/graph/graph_param.hpp>
#include <warpwright/graph/round_up_to.hpp>
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/reduce.hpp>
#include <warpwright/memory.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <limits>
#include <vector>

namespace ew = warpwright::ew;
namespace ww = warpwright;

namespace {

constexpr std::uint64_t features = 16;
constexpr std::uint64_t rows_in_all = 1024;
constexpr std::uint64_t largest_batch = 64;
constexpr unsigned steps = 2000;

enum class phase { train, evaluate };

// All addresses that the steps use; they do not change.
struct model {
  float* weights;
  float* gradient;
  float const* x;  // rows x features: what the step reads
  float const* y;
  float* error;  // of each row
  float* loss;
  std::int64_t* bad;  // how many elements of the gradient are not finite
  float const* rate;  // the learning rate over the number of rows, in a graph_param
  ew::reduction_workspace work;
};

struct errors_of_rows {
  model m;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t row) const {
    float sum = -m.y[row];
    for (std::uint64_t j = 0; j < features; ++j) sum += m.x[row * features + j] * m.weights[j];
    m.error[row] = sum;
  }
};

struct gradient_of_weights {
  model m;
  std::uint64_t rows;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t j) const {
    float sum = 0.0F;
    for (std::uint64_t row = 0; row < rows; ++row) sum += m.error[row] * m.x[row * features + j];
    m.gradient[j] = sum;
  }
};

// A skipped step is decided on the device, where a graph can decide it.
void train_step(ww::stream_ref stream, model const& m, std::uint64_t rows) {
  ww::for_each_index(stream, rows, errors_of_rows{m});
  ww::for_each_index(stream, features, gradient_of_weights{m, rows});
  auto const w = ew::in(m.weights, features);
  auto const g = ew::in(m.gradient, features);
  ew::reduce(stream, m.work, features, ew::to(m.bad) = ew::count_nonfinite(g));
  ew::run(stream, ew::out(m.weights, features) = ew::where(ew::device_scalar(m.bad) == 0,
                                                           w - ew::device_scalar(m.rate) * g, w));
}

void evaluate(ww::stream_ref stream, model const& m, std::uint64_t rows) {
  ww::for_each_index(stream, rows, errors_of_rows{m});
  auto const error = ew::in(m.error, rows);
  ew::reduce(stream, m.work, rows, ew::to(m.loss) = ew::mean(error * error));
}

// Copies a batch to where the step reads it, and fills up with rows of zeros, which add nothing to
// the gradient.
struct load_batch {
  float* x;
  float* y;
  float const* all_x;
  float const* all_y;
  std::uint64_t first, count;
  float spoil;  // added to the first row
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t row) const {
    std::uint64_t const from = (first + row) % rows_in_all;
    for (std::uint64_t j = 0; j < features; ++j) {
      x[row * features + j] = row < count ? all_x[from * features + j] : 0.0F;
    }
    y[row] = row < count ? all_y[from] + (row == 0 ? spoil : 0.0F) : 0.0F;
  }
};

class training {
 public:
  explicit training(bool graphs) : graphs_{graphs} {
    std::vector<float> x(rows_in_all * features);
    std::vector<float> y(rows_in_all, 0.0F);
    std::uint32_t state = 1;
    for (std::size_t i = 0; i < x.size(); ++i) {
      state = state * 1664525U + 1013904223U;
      x[i] = static_cast<float>(state >> 8U) * 0x1p-23F - 1.0F;
      y[i / features] += x[i] * true_weight(i % features);
    }
    all_x_.copy_from(stream_, x.data(), x.size());
    all_y_.copy_from(stream_, y.data(), y.size());
    ew::run(stream_, ew::out(weights_.data(), features) = 0.0F);
    stream_.synchronize();
  }

  static float true_weight(std::size_t j) { return static_cast<float>(j) - 7.5F; }

  std::vector<float> run() {
    model const m{weights_.data(), gradient_.data(), x_.data(),   y_.data(), error_.data(),
                  loss_.data(),    bad_.data(),      rate_.get(), work_};
    model all = m;
    all.x = all_x_.data();
    all.y = all_y_.data();
    std::vector<std::size_t> const buckets{16, 32, largest_batch};
    for (unsigned step = 0; step < steps; ++step) {
      std::uint64_t const count = 10 + step * 7 % 55;  // changes from step to step
      std::uint64_t const rows = ww::round_up_to(count, buckets);
      float const spoil = step % 97 == 50 ? std::numeric_limits<float>::infinity() : 0.0F;
      ww::for_each_index(stream_, rows,
                         load_batch{x_.data(), y_.data(), all_x_.data(), all_y_.data(),
                                    step * largest_batch, count, spoil});
      float const rate = 0.5F / (1.0F + 0.001F * static_cast<float>(step));
      rate_.set(stream_, rate / static_cast<float>(count));
      one_step(phase::train, rows, train_step, m);
      if (step % 500 == 499) {
        one_step(phase::evaluate, rows_in_all, evaluate, all);
        std::printf("step %4u: loss %.3g\n", step + 1,
                    static_cast<double>(loss_.element(stream_, 0)));
      }
    }
    std::vector<float> weights(features);
    weights_.copy_to(stream_, weights.data(), weights.size());
    stream_.synchronize();
    return weights;
  }

  std::string table() { return cache_.statistics().to_text(); }

 private:
  template <class Body>
  void one_step(phase of, std::uint64_t rows, Body body, model const& m) {
    if (graphs_) {
      cache_.run(stream_, {of, rows}, body, m, rows);
    } else {
      body(stream_, m, rows);
    }
  }

  bool graphs_;
  ww::stream stream_;
  ww::memory_pool pool_{ww::current_device()};
  ww::device_buffer<float> all_x_{pool_, stream_, rows_in_all* features};
  ww::device_buffer<float> all_y_{pool_, stream_, rows_in_all};
  ww::device_buffer<float> x_{pool_, stream_, largest_batch* features};
  ww::device_buffer<float> y_{pool_, stream_, largest_batch};
  ww::device_buffer<float> weights_{pool_, stream_, features};
  ww::device_buffer<float> gradient_{pool_, stream_, features};
  ww::device_buffer<float> error_{pool_, stream_, rows_in_all};
  ww::device_buffer<float> loss_{pool_, stream_, 1};
  ww::device_buffer<std::int64_t> bad_{pool_, stream_, 1};
  ww::device_buffer<std::byte> scratch_{pool_, stream_, 16 << 10U};
  ew::reduction_workspace work_ = ew::prepare_workspace(stream_, scratch_.data(), scratch_.size());
  ww::graph_param<float> rate_{stream_, 0.0F};
  ww::graph_cache cache_;  // destroyed first: its graphs use the memory above
};

int run() {
  training eager{false};
  training captured{true};
  std::vector<float> const expected = eager.run();
  std::vector<float> const found = captured.run();
  std::printf("\n%s", captured.table().c_str());
  bool right = found == expected;
  for (std::size_t j = 0; j < features; ++j) {
    right = right && std::abs(found[j] - training::true_weight(j)) < 1e-3F;
  }
  std::printf(
      "%u steps, %s\n", steps,
      right ? "the same bits as without graphs" : "WRONG: other weights than without graphs");
  return right ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
