// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What each part of the library buys: the plain CUDA way of a piece of the job against the
// library's, in turns within this run, on the same data and with the same results.
#pragma once

#include "output.hpp"
#include "report.hpp"
#include "serving.hpp"

#include <warpwright/graph/graph_replay.hpp>
#include <warpwright/measure/compare.hpp>

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace digits {

namespace detail {

/// Device memory of cudaMalloc and cudaFree.
class plain_memory {
 public:
  explicit plain_memory(std::size_t bytes) { ww::check(cudaMalloc(&data_, bytes), "cudaMalloc"); }
  ~plain_memory() { static_cast<void>(cudaFree(data_)); }
  plain_memory(plain_memory const&) = delete;
  plain_memory& operator=(plain_memory const&) = delete;
  [[nodiscard]] void* data() const noexcept { return data_; }

 private:
  void* data_ = nullptr;
};

inline void write_all(ww::stream_ref stream, void* data, std::size_t bytes) {
  ww::check(cudaMemsetAsync(data, 0, bytes, stream.get()), "cudaMemsetAsync");
}

/// The comparisons of one run, on one stream.
class part_comparison {
 public:
  part_comparison(resources& shared, multiplier& multiply, float const* parameters,
                  dataset const& data, std::size_t batch, bool quick, progress& shown)
      : shared_{&shared},
        multiply_{&multiply},
        parameters_{parameters},
        data_{&data},
        batch_{batch},
        shown_{&shown} {
    options_ = ww::measure_options{};
    if (quick) {
      options_ = options_.sample_seconds(0.0)
                     .warmup_calls(1)
                     .min_samples(3)
                     .max_samples(3)
                     .min_seconds(0.0)
                     .max_seconds(0.05);
    }
  }

  std::vector<part_gain> run() {
    std::vector<part_gain> gains;
    for (auto const part :
         {&part_comparison::pool, &part_comparison::staged, &part_comparison::graph,
          &part_comparison::tuned, &part_comparison::fused}) {
      shown_->show("comparing each part with the plain CUDA way: " +
                   std::to_string(gains.size() + 1) + " of 5");
      gains.push_back((this->*part)());
    }
    shown_->clear();
    return gains;
  }

 private:
  static constexpr std::size_t usual_batch = trainer::batch;

  // @param ours_per_plain  how much work a call of ours does, as a multiple of one of the plain way
  template <class Plain, class Ours>
  part_gain compare(part_gain names, Plain const& plain, Ours const& ours,
                    double ours_per_plain = 1.0) {
    ww::comparison const found = ww::compare(stream(), options_, plain, ours);
    ww::time_ratio const ratio = found.ratio(0, 1);
    names.plain_ms = 1e3 * found.summaries[0].median_seconds;
    names.our_ms = 1e3 * found.summaries[1].median_seconds / ours_per_plain;
    names.gain = ratio.median * ours_per_plain;
    names.low = ratio.low * ours_per_plain;
    names.high = ratio.high * ours_per_plain;
    names.converged = ratio.converged();
    return names;
  }

  part_gain pool() {
    std::size_t const sizes[] = {batch_ * image_pixels, batch_ * hidden_units,
                                 batch_ * class_count,  batch_,
                                 batch_ * class_count,  batch_};
    auto const plain = [&] {
      plain_memory const a{4 * sizes[0]}, b{4 * sizes[1]}, c{4 * sizes[2]}, d{4 * sizes[3]},
          e{4 * sizes[4]}, f{4 * sizes[5]};
      std::size_t i = 0;
      for (plain_memory const* each : {&a, &b, &c, &d, &e, &f}) {
        write_all(stream(), each->data(), 4 * sizes[i++]);
      }
    };
    auto const ours = [&] {
      ww::memory_pool& from = shared_->memory;
      ww::device_buffer<float> a{from, stream(), sizes[0]}, b{from, stream(), sizes[1]},
          c{from, stream(), sizes[2]}, d{from, stream(), sizes[3]}, e{from, stream(), sizes[4]},
          f{from, stream(), sizes[5]};
      for (ww::device_buffer<float>* each : {&a, &b, &c, &d, &e, &f}) {
        write_all(stream(), each->data(), each->size_bytes());
      }
    };
    return compare({"memory pool", "the six buffers of a batch, each written once",
                    "cudaMalloc, cudaFree", "memory_pool"},
                   plain, ours);
  }

  part_gain staged() {
    buffered_inference infer{shared_->memory, *multiply_, batch_};
    std::vector<float> images(batch_ * image_pixels);
    for (std::size_t i = 0; i < images.size(); ++i) {
      images[i] = data_->pixels[i % data_->pixels.size()];
    }
    auto const plain = [&] {
      ww::check(cudaMemcpyAsync(infer.images(), images.data(), images.size() * sizeof(float),
                                cudaMemcpyHostToDevice, stream().get()),
                "cudaMemcpyAsync");
      infer.run(parameters_, batch_);
    };
    auto const ours = [&] {
      shared_->staging.copy_to_device(stream(), infer.images(), images.data(),
                                      images.size() * sizeof(float));
      infer.run(parameters_, batch_);
    };
    check_labels(infer, batch_, plain, ours);
    return compare({"staging", "a batch copied from pageable memory, and classified",
                    "cudaMemcpyAsync", "staging"},
                   plain, ours);
  }

  part_gain graph() {
    buffered_inference infer{shared_->memory, *multiply_, 1};
    first_images(infer, 1);
    ww::graph_replay replay;
    auto const plain = [&] { infer.run(parameters_, 1); };
    auto const ours = [&] {
      replay.run(stream(), [&](ww::capture_scope&) { infer.run(parameters_, 1); });
    };
    for (int i = 0; i < 2; ++i) check_labels(infer, 1, plain, ours);
    return compare({"graph", "one image classified", "a launch each kernel", "graph_replay"}, plain,
                   ours);
  }

  part_gain tuned() {
    buffered_inference usual{shared_->memory, *multiply_, usual_batch};
    buffered_inference chosen{shared_->memory, *multiply_, batch_};
    first_images(usual, usual_batch);
    first_images(chosen, batch_);
    auto const plain = [&] { usual.run(parameters_, usual_batch); };
    auto const ours = [&] { chosen.run(parameters_, batch_); };
    return compare({"tuner", text::format("%zu images classified", usual_batch),
                    text::format("batches of %zu, as in the training", usual_batch),
                    text::format("batch_tuner: batches of %zu", batch_)},
                   plain, ours, static_cast<double>(batch_) / static_cast<double>(usual_batch));
  }

  part_gain fused() {
    std::size_t const hidden_size = batch_ * hidden_units;
    std::size_t const output_size = batch_ * class_count;
    ww::memory_pool& from = shared_->memory;
    ww::device_buffer<float> before{from, stream(), hidden_size}, sum{from, stream(), hidden_size},
        hidden{from, stream(), hidden_size}, again{from, stream(), hidden_size};
    ww::device_buffer<float> logits{from, stream(), output_size},
        shifted{from, stream(), output_size}, probabilities{from, stream(), output_size},
        again_probabilities{from, stream(), output_size}, log_sum{from, stream(), batch_};
    auto const some = [](unsigned period) {
      return ew::cast<float>(ew::index() % period) * 0.125F - 2.0F;
    };
    ew::run(stream(), ew::out(before.data(), hidden_size) = some(37));
    ew::run(stream(), ew::out(logits.data(), output_size) = some(29));
    ew::run(stream(), ew::out(log_sum.data(), batch_) = some(11));
    auto const b1 = ew::row(parameters_ + b1_at, hidden_units);
    auto const b2 = ew::row(parameters_ + b2_at, class_count);
    // The same functions in both, so that the kernels and their traffic alone differ.
    auto const plain = [&] {
      ew::run(stream(), ew::out(sum.data(), hidden_size) = ew::in(before.data(), hidden_size) + b1);
      ew::run(stream(),
              ew::out(hidden.data(), hidden_size) = ew::gelu(ew::in(sum.data(), hidden_size)));
      ew::run(stream(),
              ew::out(shifted.data(), output_size) = ew::in(logits.data(), output_size) + b2);
      ew::run(stream(),
              ew::out(shifted.data(), output_size) =
                  ew::in(shifted.data(), output_size) - ew::col(log_sum.data(), class_count));
      ew::run(stream(), ew::out(probabilities.data(), output_size) =
                            ew::exp(ew::in(shifted.data(), output_size)));
    };
    auto const ours = [&] {
      ew::run(stream(), ew::out(again.data(), hidden_size) =
                            ew::gelu(ew::in(before.data(), hidden_size) + b1));
      ew::run(stream(), ew::out(again_probabilities.data(), output_size) =
                            ew::exp(ew::in(logits.data(), output_size) + b2 -
                                    ew::col(log_sum.data(), class_count)));
    };
    plain();
    ours();
    check_close(hidden, again);
    check_close(probabilities, again_probabilities);
    return compare({"fused kernels", "bias, GELU and softmax's last step of a batch",
                    "five kernels, one each operation", "ew::run, two kernels"},
                   plain, ours);
  }

  [[nodiscard]] ww::stream_ref stream() const { return multiply_->stream(); }

  void first_images(buffered_inference& infer, std::size_t count) {
    std::vector<float> images(count * image_pixels);
    for (std::size_t i = 0; i < images.size(); ++i) {
      images[i] = data_->pixels[i % data_->pixels.size()];
    }
    shared_->staging.copy_to_device(stream(), infer.images(), images.data(),
                                    images.size() * sizeof(float));
  }

  template <class T>
  std::vector<T> fetch(T const* from, std::size_t count) {
    std::vector<T> host(count);
    shared_->staging.copy_to_host(stream(), host.data(), from, count * sizeof(T));
    return host;
  }

  template <class Plain, class Ours>
  void check_labels(buffered_inference& infer, std::size_t count, Plain const& plain,
                    Ours const& ours) {
    plain();
    std::vector<std::int32_t> const expected = fetch<std::int32_t>(infer.labels(), count);
    ew::run(stream(), ew::out(infer.labels(), count) = -1);
    ours();
    if (fetch<std::int32_t>(infer.labels(), count) != expected) differs();
  }

  void check_close(ww::device_buffer<float> const& a, ww::device_buffer<float> const& b) {
    std::vector<float> const left = fetch<float>(a.data(), a.size());
    std::vector<float> const right = fetch<float>(b.data(), b.size());
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (!(std::fabs(left[i] - right[i]) <= 1e-5F * (1.0F + std::fabs(left[i])))) differs();
    }
  }

  [[noreturn]] static void differs() {
    throw std::runtime_error{"the library's way has other results than the plain CUDA way"};
  }

  resources* shared_;
  multiplier* multiply_;
  float const* parameters_;
  dataset const* data_;
  std::size_t batch_;
  progress* shown_;
  ww::measure_options options_;
};

}  // namespace detail

/// Compares each part of the library with the plain CUDA way, in turns.
/// @param parameters  in device memory
/// @param batch       the tuned batch size
/// @param quick       three turns each, which show no gain
inline std::vector<part_gain> compare_parts(resources& shared, multiplier& multiply,
                                            float const* parameters, dataset const& data,
                                            std::size_t batch, bool quick, progress& shown) {
  return detail::part_comparison{shared, multiply, parameters, data, batch, quick, shown}.run();
}

/// Formats the table of the terminal.
/// @param host  whether the host runtime ran it
inline std::string gains_table(std::vector<part_gain> const& gains, bool host) {
  std::string table =
      "\nwhat each part buys against the plain CUDA way, in turns; medians, and the gain's "
      "interval\n";
  if (host) table += "these are the host runtime's times on a CPU: a GPU's gains are others\n";
  table += text::format("%-14s %11s %11s  %s\n", "part", "plain ms", "ours ms", "gain");
  for (part_gain const& each : gains) {
    table += text::format("%-14s %11s %11s  ", each.part.c_str(),
                          text::milliseconds(each.plain_ms).c_str(),
                          text::milliseconds(each.our_ms).c_str()) +
             each.verdict() + "\n  " + each.work + ": " + each.plain + " / " + each.ours + '\n';
  }
  return table;
}

}  // namespace digits
