// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The main example: trains a classifier on handwritten digits, finds its best inference batch,
// captures the hot loop in a graph, streams images through it, and reports the gain of each part.
#include "comparison.hpp"
#include "dataset.hpp"
#include "diagnosis.hpp"
#include "gemm.hpp"
#include "network.hpp"
#include "options.hpp"
#include "output.hpp"
#include "report.hpp"
#include "serving.hpp"

#include <warpwright/core.hpp>
#include <warpwright/measure/measure.hpp>
#include <warpwright/tune/report.hpp>
#include <warpwright/tune/stored_tuner.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <memory>
#include <vector>

namespace {

using digits::run_summary;
namespace ew = warpwright::ew;
namespace ww = warpwright;

#if WARPWRIGHT_HOST_RUNTIME
constexpr char const* runtime_name = "host";
constexpr double default_latency_limit_ms = 20.0;
#else
constexpr char const* runtime_name = "cuda";
constexpr double default_latency_limit_ms = 1.0;
#endif

// The network's parameters and the images, in device memory.
struct on_device {
  ww::device_buffer<float> parameters;
  ww::device_buffer<float> pixels;
  ww::device_buffer<std::int32_t> labels;
};

template <class T>
ww::device_buffer<T> upload(digits::resources& shared, ww::stream_ref stream,
                            std::vector<T> const& values) {
  ww::device_buffer<T> buffer{shared.memory, stream, values.size()};
  shared.staging.copy_to_device(stream, buffer.data(), values.data(), buffer.size_bytes());
  return buffer;
}

// Fills a batch with images, repeating them as needed.
void fill_batch(ww::stream_ref stream, on_device const& device, float* images, std::size_t batch) {
  ew::run(stream,
          ew::out(images, batch * digits::image_pixels) = ew::map(
              digits::repeat_images{device.pixels.data(), device.pixels.size()}, ew::index()));
}

void train(digits::resources& shared, digits::multiplier& multiply, on_device const& device,
           digits::options const& options, std::vector<std::int32_t> training, digits::random& draw,
           digits::progress& shown, run_summary& run) {
  ww::stream_ref const stream = multiply.stream();
  std::size_t const steps = training.size() / digits::trainer::batch;
  std::size_t const used = steps * digits::trainer::batch;
  auto const epochs = static_cast<std::size_t>(options.epochs);
  std::vector<std::int32_t> order;
  order.reserve(epochs * used);
  for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
    draw.shuffle(training);
    order.insert(order.end(), training.begin(),
                 training.begin() + static_cast<std::ptrdiff_t>(used));
  }
  auto const begin = std::chrono::steady_clock::now();
  ww::device_buffer<std::int32_t> const samples = upload(shared, stream, order);
  digits::trainer trainer{shared.memory, multiply, device.parameters.data()};
  for (std::size_t step = 0; step < epochs * steps; ++step) {
    constexpr double pi = 3.14159265358979;
    double const done = static_cast<double>(step + 1) / static_cast<double>(epochs * steps);
    auto const rate = static_cast<float>(0.01 * 0.5 * (1.0 + std::cos(pi * done)));
    trainer.step(device.pixels.data(), device.labels.data(),
                 samples.data() + step * digits::trainer::batch, rate, options.seed);
    if ((step + 1) % steps == 0) {
      stream.synchronize();
      shown.show("training: epoch " + std::to_string((step + 1) / steps) + " of " +
                 std::to_string(epochs));
    }
  }
  shown.clear();
  std::chrono::duration<double> const elapsed = std::chrono::steady_clock::now() - begin;
  run.epochs = options.epochs;
  run.training_s = elapsed.count();
}

// The network's classification of each image.
std::vector<std::int32_t> classify_all(digits::resources& shared, digits::multiplier& multiply,
                                       on_device const& device) {
  std::size_t const count = device.labels.size();
  digits::buffered_inference infer{shared.memory, multiply, count};
  fill_batch(multiply.stream(), device, infer.images(), count);
  infer.run(device.parameters.data(), count);
  std::vector<std::int32_t> predictions(count);
  shared.staging.copy_to_host(multiply.stream(), predictions.data(), infer.labels(),
                              count * sizeof(std::int32_t));
  return predictions;
}

double accuracy(std::vector<std::int32_t> const& predictions,
                std::vector<std::int32_t> const& labels, std::vector<std::int32_t> const& which) {
  std::size_t correct = 0;
  for (std::int32_t const i : which) {
    auto const at = static_cast<std::size_t>(i);
    correct += predictions[at] == labels[at] ? 1U : 0U;
  }
  return static_cast<double>(correct) / static_cast<double>(which.size());
}

// Tunes the batch size, or finds it in the store, and sets run.batches, run.choice and run.tuning.
// @return the chosen size
std::size_t tune(digits::resources& shared, digits::multiplier& multiply, on_device const& device,
                 digits::options const& options, digits::progress& shown, run_summary& run) {
  std::unique_ptr<digits::buffered_inference> infer;
  std::size_t const live_before = shared.memory.statistics().live_bytes;
  // Allocates for a batch of this size, and returns the bytes.
  auto const prepare = [&](std::size_t batch) -> std::size_t {
    infer.reset();
    infer = std::make_unique<digits::buffered_inference>(shared.memory, multiply, batch);
    fill_batch(multiply.stream(), device, infer->images(), batch);
    return shared.memory.statistics().live_bytes - live_before;
  };
  auto const workload = [&](std::size_t batch, ww::stream_ref) {
    infer->run(device.parameters.data(), batch);
  };
  ww::batch_tuner tuner =
      ww::batch_tuner{}
          .range(1, options.tune_max)
          .memory_budget(options.memory_budget_bytes)
          .objective(ww::throughput_under_latency(run.latency_limit_ms / 1e3, run.latency_quantile))
          .stop_after_flat(0)
          .progress([&shown](ww::tuning_progress const& p) {
            shown.show(ww::progress_line::to_text(p));
          });
  if (options.quick) {
    tuner = tuner
                .sampling(ww::measure_options{}
                              .sample_seconds(0.0)
                              .min_samples(3)
                              .max_samples(3)
                              .min_seconds(0.0)
                              .max_seconds(0.002))
                .latency_calls(3)
                .latency_confidence(0.5)
                .soak(3)
                .resolution(1.0)
                .max_seconds(4.0);
  }
  auto const tuned = [&] {
    if (options.tuning_store.empty()) return tuner.tune(multiply.stream(), workload, prepare);
    ww::tuning_store const store{options.tuning_store};
    return ww::stored_tuner{tuner, store, "digits 64-256-10"}.tune(multiply.stream(), workload,
                                                                   prepare);
  };
  ww::tune_result const result = tuned();
  shown.clear();
  for (std::string const& warning : result.warnings) std::printf("warning: %s\n", warning.c_str());
  for (std::size_t i = 0; i < result.rows.size(); ++i) {
    ww::tune_row const& found = result.rows[i];
    digits::batch_row row;
    row.batch = found.batch;
    row.measured = found.items_per_second > 0.0 && found.latency_samples > 0;
    row.within = found.status == ww::tune_status::ok;
    row.chosen = i == result.chosen_index;
    row.items_per_s = found.items_per_second;
    row.median_ms = 1e3 * found.latency_median_seconds;
    row.p99_ms = 1e3 * found.latency_p99_seconds;
    row.memory_bytes = found.memory_bytes;
    row.verdict = row.chosen ? "chosen" : ww::to_string(found.status);
    if (!row.measured) row.verdict += ", not run";
    run.batches.push_back(row);
  }
  run.choice = result.explanation;
  run.tuning = ww::to_string(result.source);
  return result.chosen().batch;
}

// Measures a single batch, eagerly and as a graph, and checks that both give the same results.
digits::graph_timing compare_graph(digits::resources& shared, digits::multiplier& multiply,
                                   on_device const& device, std::size_t batch, bool quick) {
  ww::stream_ref const stream = multiply.stream();
  digits::buffered_inference infer{shared.memory, multiply, batch};
  fill_batch(stream, device, infer.images(), batch);
  float const* const parameters = device.parameters.data();
  auto const predictions = [&] {
    std::vector<std::int32_t> labels(batch);
    shared.staging.copy_to_host(stream, labels.data(), infer.labels(),
                                batch * sizeof(std::int32_t));
    return labels;
  };
  // One call per sample, to measure latency and not throughput.
  ww::measure_options const options = ww::measure_options{}
                                          .sample_seconds(0.0)
                                          .warmup_calls(5)
                                          .min_samples(quick ? 3 : 51)
                                          .max_samples(quick ? 3 : 401)
                                          .max_seconds(quick ? 0.01 : 0.5);

  digits::graph_timing timing;
  timing.batch = batch;
  auto const eager = [&] { infer.run(parameters, batch); };
  timing.eager_ms = 1e3 * ww::measure(stream, eager, options).summary.median_seconds;
  std::vector<std::int32_t> const expected = predictions();

  ew::run(stream, ew::out(infer.labels(), batch) = -1);
  ww::graph_cache graphs{digits::inference_graphs()};
  auto const replayed = [&] {
    static_cast<void>(digits::run_inference(graphs, infer, stream, parameters, infer.images(),
                                            infer.labels(), batch));
  };
  timing.graph_ms = 1e3 * ww::measure(stream, replayed, options).summary.median_seconds;
  timing.nodes = graphs.statistics().keys.front().nodes;
  if (predictions() != expected) {
    throw std::runtime_error{
        "the captured graph returns other results than the calls that it captured"};
  }
  return timing;
}

void print_batches(run_summary const& run) {
  std::printf("\n%10s %13s %11s %11s %11s  %s\n", "batch", "images/s", "median ms", "p99 ms",
              "memory", "verdict");
  for (digits::batch_row const& row : run.batches) {
    std::string const rate = row.measured ? digits::text::grouped(row.items_per_s) : "-";
    std::string const median = row.measured ? digits::text::milliseconds(row.median_ms) : "-";
    std::string const p99 = row.measured ? digits::text::milliseconds(row.p99_ms) : "-";
    std::printf("%s%7zu %13s %11s %11s %11s  %s\n", row.chosen ? "-> " : "   ", row.batch,
                rate.c_str(), median.c_str(), p99.c_str(),
                digits::text::bytes(static_cast<double>(row.memory_bytes)).c_str(),
                row.verdict.c_str());
  }
  std::printf("%s: %s\n\n", run.tuning.c_str(), run.choice.c_str());
}

void print_graph(digits::graph_timing const& timing) {
  std::printf("graph at batch %zu: %s ms call by call, %s ms replayed: %.2f x (%zu nodes)\n",
              timing.batch, digits::text::milliseconds(timing.eager_ms).c_str(),
              digits::text::milliseconds(timing.graph_ms).c_str(), timing.speedup(), timing.nodes);
}

void print_device(ww::device_info const& device) {
  if (device.host_runtime) {
    std::printf(
        "device   %s\nruntime  host: kernels run on this machine's CPU. No GPU speed is "
        "measured; every time and rate below is the CPU's.\n",
        device.name.c_str());
  } else {
    std::printf("device   %s, %d multiprocessors, %s\nruntime  CUDA %d.%d, driver for %d.%d\n",
                device.name.c_str(), device.multiprocessor_count,
                digits::text::bytes(static_cast<double>(device.memory_total_bytes)).c_str(),
                device.runtime_version / 1000, device.runtime_version % 1000 / 10,
                device.driver_version / 1000, device.driver_version % 1000 / 10);
  }
}

void run_demo(digits::options const& options, digits::dataset const& data) {
  if (ww::device_count() == 0) throw std::runtime_error{"no CUDA device is visible"};
  ww::device_info const info = ww::get_device_info(ww::current_device());
  print_device(info);
  digits::flush_output();

  run_summary run;
  run.runtime = runtime_name;
  run.device = info.name;
  run.seed = options.seed;
  run.report_path = options.report;
  // A short run has too few calls to show a p99.
  run.latency_quantile = options.quick ? 0.5 : 0.99;
  run.memory_budget_bytes = options.memory_budget_bytes;
  run.latency_limit_ms =
      options.latency_limit_ms > 0.0 ? options.latency_limit_ms : default_latency_limit_ms;

  digits::random draw{options.seed};
  digits::split const parts = digits::split_fifth(data.labels.size(), draw);
  digits::resources shared{info.id};
  digits::progress shown;
  {
    ww::stream_lease const lease = shared.streams.lease();
    digits::multiplier multiply{shared.memory, lease};
    on_device const device{upload(shared, lease, digits::initial_parameters(draw)),
                           upload(shared, lease, data.pixels), upload(shared, lease, data.labels)};

    train(shared, multiply, device, options, parts.training, draw, shown, run);
    std::vector<std::int32_t> const predictions = classify_all(shared, multiply, device);
    run.accuracy = accuracy(predictions, data.labels, parts.test);
    run.tested = parts.test.size();
    std::printf(
        "training %d epochs over %zu images in %.2f s, seed %llu\n"
        "accuracy %.4f on %zu held-out images\n",
        run.epochs, parts.training.size(), run.training_s,
        static_cast<unsigned long long>(run.seed), run.accuracy, run.tested);
    if (run.accuracy < options.accuracy_floor) {
      throw std::runtime_error{
          digits::text::format("accuracy %.4f is below the floor of %.4f (--accuracy-floor)",
                               run.accuracy, options.accuracy_floor)};
    }

    digits::flush_output();

    std::printf("\ntuning the inference batch, at most %s of memory and a %s of %s ms\n",
                digits::text::bytes(static_cast<double>(run.memory_budget_bytes)).c_str(),
                run.percentile(), digits::text::milliseconds(run.latency_limit_ms).c_str());
    std::size_t const batch = tune(shared, multiply, device, options, shown, run);
    print_batches(run);
    digits::flush_output();

    run.graph = compare_graph(shared, multiply, device, batch, options.quick);
    run.graph_of_one = compare_graph(shared, multiply, device, 1, options.quick);
    print_graph(run.graph);
    print_graph(run.graph_of_one);

    // Forty batches, to make the ends of the run negligible, and all images twenty times.
    std::size_t const images =
        options.quick ? 24 * batch : (std::max)(40 * batch, 20 * data.labels.size());
    digits::serving_result const served =
        digits::serve(shared, device.parameters.data(), batch, images, data, predictions,
                      [](auto const& work) { work(); });
    // Another batch size may round differently, and change the result of an ambiguous image.
    if (served.wrong * 1000 > images) {
      throw std::runtime_error{std::to_string(served.wrong) + " of " + std::to_string(images) +
                               " streamed images were classified differently"};
    }
    run.streamed_images = images;
    run.streamed_images_per_s = served.run.items_per_second();
    run.uploaded_bytes_per_s =
        run.streamed_images_per_s * static_cast<double>(digits::image_pixels * sizeof(float));
    std::printf("streaming %s images through batches of %zu: %s images/s, %.1f MB/s up\n%s",
                digits::text::grouped(static_cast<double>(images)).c_str(), batch,
                digits::text::grouped(run.streamed_images_per_s).c_str(),
                run.uploaded_bytes_per_s / 1e6, served.run.to_text().c_str());
    ww::pool_statistics const pool = shared.memory.statistics();
    run.pool_hit_rate = pool.hit_rate();
    run.pool_requests = pool.allocations;
    run.pool_reserved_bytes = pool.reserved_bytes;
    std::printf("pool %.1f %% of %s requests without a CUDA call, %s reserved\n",
                100.0 * run.pool_hit_rate,
                digits::text::grouped(static_cast<double>(run.pool_requests)).c_str(),
                digits::text::bytes(static_cast<double>(run.pool_reserved_bytes)).c_str());
    digits::flush_output();
    if (options.compare) {
      run.gains = digits::compare_parts(shared, multiply, device.parameters.data(), data, batch,
                                        options.quick, shown);
      std::printf("%s", digits::gains_table(run.gains, info.host_runtime).c_str());
      digits::flush_output();
      std::vector<digits::diagnosed_service> const services = digits::diagnose_services(
          shared, multiply, device.parameters.data(), data, batch, predictions, options.report);
      std::printf("%s\n", digits::diagnosis_text(services).c_str());
    }
  }
  // Once more: the tuning store is there by now.
  digits::check_distinct(options.data, options.report, options.tuning_store);
  digits::flush_output();
  digits::write_report(run);
  std::printf("%s\n", digits::result_line(run).c_str());
  digits::flush_output();
}

int fail(int code, char const* text) {
  std::fflush(stdout);
  std::fprintf(stderr, "error: %s\n", text);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    digits::claim_standard_descriptors();
    digits::options const options = digits::parse_options(argc, argv);
    if (options.help) {
      std::printf("%s", digits::usage);
      digits::flush_output();
      return 0;
    }
    run_demo(options, digits::read_dataset(options.data));
    return 0;
  } catch (digits::usage_error const& error) {
    return fail(2, error.what());
  } catch (digits::data_error const& error) {
    return fail(2, error.what());
  } catch (ww::no_feasible_batch const& error) {
    std::printf("%s", ww::to_text(error.result()).c_str());
    return fail(1, "no batch size is within the limits; raise --memory-budget or --latency-limit");
  } catch (std::exception const& error) {
    return fail(1, error.what());
  }
}
