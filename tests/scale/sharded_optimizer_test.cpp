// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "scale/ranks.hpp"

#include <warpwright/core/device.hpp>
#include <warpwright/graph/graph_replay.hpp>
#include <warpwright/kernel/evaluate.hpp>
#include <warpwright/scale/sharded_optimizer.hpp>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstring>

namespace {

namespace ww = warpwright;
namespace ew = ww::ew;
using ranks::texts;

std::vector<std::size_t> const sizes{1000, 30, 7001, 7, 200};

// Parameters of a rank in device memory, and gradients that depend on rank, step and element.
template <class T>
struct problem {
  problem(ww::memory_pool& pool, ww::stream_ref stream) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      memory.emplace_back(pool, stream, sizes[i]);
      ew::run(stream, ew::out(memory[i].data(), sizes[i]) =
                          0.01F * ew::cast<float>(ew::index() % 17) + 0.1F * static_cast<float>(i));
      parameters.add("p" + std::to_string(i), memory[i].data(), sizes[i]);
    }
  }
  static void gradient(ww::stream_ref stream, ww::tensor const& t, int rank, int step) {
    ew::run(stream,
            ew::out(static_cast<T*>(t.data), t.size) =
                0.125F * ew::cast<float>(
                             (ew::index() + static_cast<std::uint64_t>(rank + 3 * step)) % 13) -
                0.5F);
  }
  std::vector<ww::device_buffer<T>> memory;
  ww::tensor_list parameters;
};

std::string bytes_of(ww::stream const& stream, ww::tensor_list const& tensors) {
  std::string all;
  for (ww::tensor const& t : tensors) {
    std::string one(t.bytes(), 0);
    ww::check(cudaMemcpyAsync(&one[0], t.data, t.bytes(), cudaMemcpyDefault, stream.get()), "copy");
    stream.synchronize();
    all += one;
  }
  return all;
}

template <class T, class Optimizer>
std::string compare(std::string const& path, int rank, int count,
                    typename Optimizer::options const& with) {
  ww::communicator comm{ww::rendezvous::file(path, rank, count),
                        ww::communicator_options{}.deadline(20.0)};
  ww::stream stream;
  ww::memory_pool pool{ww::current_device()};
  problem<T> whole{pool, stream};
  constexpr ww::element_type type = ww::detail::element_type_of<T>::value;
  ww::gradient_reducer reduce{comm, pool, stream, whole.parameters,
                              ww::gradient_reducer_options{}.type(type)};
  Optimizer plain{pool, stream, whole.parameters, with};
  problem<T> const initial{pool, stream};
  ww::sharded_optimizer<Optimizer> sharded{comm, pool, stream, initial.parameters, with};
  for (int step = 0; step < 5; ++step) {
    for (std::size_t i = sizes.size(); i-- > 0;) {
      problem<T>::gradient(stream, reduce.gradients()[i], rank, step);
      reduce.ready(stream, i);
    }
    reduce.finish(stream);
    plain.step(stream, reduce.gradients());
    for (std::size_t i = sizes.size(); i-- > 0;) {
      problem<T>::gradient(stream, sharded.gradients()[i], rank, step);
      sharded.ready(stream, i);
    }
    sharded.step(stream);
  }
  comm.synchronize(stream);
  ww::tensor_list all, own;
  plain.add_to(all);
  sharded.add_to(own);
  double const share = static_cast<double>(own.bytes()) / static_cast<double>(all.bytes());
  bool const same = bytes_of(stream, whole.parameters) == bytes_of(stream, sharded.parameters());
  return std::string{same ? "same" : "other"} + " bits, " +
         (std::abs(share * count - 1.0) < 0.1 ? "a part" : std::to_string(share)) + " of the state";
}

struct forward {
  float* loss;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t) const { *loss = 0.75F * *loss + 1.0F; }
};
struct backward {
  float const* loss;
  float const* parameter;
  float rank;
  float* gradient;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    gradient[i] = rank * *loss * parameter[i] + 0.125F * static_cast<float>(i % 13);
  }
};

// @return the parameters behind six whole steps, eager or replays of one graph
template <class Ready, class Update>
std::string trained(ww::stream const& stream, ww::memory_pool& pool, int rank, bool captures,
                    ww::tensor_list const& parameters, ww::tensor_list const& gradients,
                    Ready const& ready, Update const& update) {
  ww::device_buffer<float> loss{pool, stream, 1};
  ew::run(stream, ew::out(loss.data(), 1) = 0.0F);
  auto const step = [&](ww::stream_ref s) {
    ww::for_each_index(s, 1, forward{loss.data()});
    for (std::size_t i = sizes.size(); i-- > 0;) {
      ww::for_each_index(
          s, sizes[i],
          backward{loss.data(), static_cast<float const*>(parameters[i].data),
                   0.5F * static_cast<float>(rank + 1), static_cast<float*>(gradients[i].data)});
      ready(s, i);
    }
    update(s);
  };
  ww::graph_replay graph{0};
  for (int k = 0; k < 6; ++k) captures ? graph.run(stream, step) : step(stream);
  return bytes_of(stream, parameters);
}

bool enough(int count) {
  if (ranks::most() >= count) return true;
  WARN("left out: " << count << " ranks need as many GPUs");
  return false;
}

TEST_CASE("a whole step, captured as one graph, has the bits of the eager one") {
  if (!enough(2)) return;
  ranks::folder const files;
  auto const all = ranks::run(2, [&](int rank) -> std::string {
    ww::communicator comm{ww::rendezvous::file(files / "a", rank, 2),
                          ww::communicator_options{}.deadline(20.0)};
    ww::stream stream;
    ww::memory_pool pool{ww::current_device()};
    std::vector<std::string> results;
    for (bool const captures : {false, true}) {
      problem<float> p{pool, stream};
      auto const options = ww::gradient_reducer_options{}.bucket_bytes(8192);
      ww::gradient_reducer reduce{comm, pool, stream, p.parameters, options};
      ww::adamw whole{pool, stream, p.parameters, ww::adamw_options{}.clip(1.0F)};
      ww::sharded_optimizer<ww::adamw> sharded{
          comm, pool, stream, p.parameters, ww::adamw_options{}.clip(1.0F), options};
      results.push_back(trained(
          stream, pool, rank, captures, p.parameters, reduce.gradients(),
          [&](ww::stream_ref s, std::size_t i) { reduce.ready(s, i); },
          [&](ww::stream_ref s) {
            reduce.finish(s);
            whole.step(s, reduce.gradients());
          }));
      results.push_back(trained(
          stream, pool, rank, captures, sharded.parameters(), sharded.gradients(),
          [&](ww::stream_ref s, std::size_t i) { sharded.ready(s, i); },
          [&](ww::stream_ref s) { sharded.step(s); }));
      comm.synchronize(stream);
    }
    return std::string{results[0] == results[2] ? "same" : "other"} + " bits, sharded " +
           (results[1] == results[3] ? "same" : "other") +
           (results[0] == bytes_of(stream, problem<float>{pool, stream}.parameters) ? ", no step"
                                                                                    : "");
  });
  INFO(texts(all));
  for (ranks::result const& r : all) REQUIRE(r.text == "same bits, sharded same");
}

TEST_CASE("a sharded step has the bits of a whole one, and a part of its state") {
  int const count = GENERATE(2, 3);
  // Of more than two numbers NCCL's sums differ with the collective.
  if (!enough(count) || (count > 2 && WARPWRIGHT_HOST_RUNTIME == 0)) return;
  ranks::folder const files;
  auto const all = ranks::run(count, [&](int rank) {
    return compare<float, ww::adamw>(files / "a", rank, count, ww::adamw_options{}.decay(0.1F)) +
           "; " + compare<float, ww::sgd>(files / "b", rank, count, {}) + "; " +
           compare<__nv_bfloat16, ww::lion>(files / "c", rank, count, {});
  });
  INFO(texts(all));
  for (ranks::result const& r : all) {
    REQUIRE(r.text ==
            "same bits, a part of the state; same bits, a part of the state; same bits, a part of "
            "the state");
  }
}

// The norm of all gradients is that of the whole, and an infinity in one part stops all.
TEST_CASE("all ranks clip alike, and skip alike") {
  if (!enough(2)) return;
  ranks::folder const files;
  auto const all = ranks::run(2, [&](int rank) {
    ww::communicator comm{ww::rendezvous::file(files / "a", rank, 2),
                          ww::communicator_options{}.deadline(20.0)};
    ww::stream stream;
    ww::memory_pool pool{ww::current_device()};
    problem<__half> whole{pool, stream};
    problem<__half> const initial{pool, stream};
    auto const with = ww::adamw_options{}.rate(0.1F).clip(0.5F);
    ww::gradient_reducer reduce{comm, pool, stream, whole.parameters,
                                ww::gradient_reducer_options{}.type(ww::element_type::float16)};
    ww::adamw plain{pool, stream, whole.parameters, with};
    ww::sharded_optimizer<ww::adamw> sharded{comm, pool, stream, initial.parameters, with};
    ww::loss_scaler one{pool, stream}, two{pool, stream};
    for (int step = 0; step < 5; ++step) {
      for (std::size_t i = sizes.size(); i-- > 0;) {
        for (ww::tensor const& t : {reduce.gradients()[i], sharded.gradients()[i]}) {
          problem<__half>::gradient(stream, t, rank, step);
          // In a gradient of which rank 0 has the sum, and rank 1 not.
          if (step == 2 && i == 0)
            ew::run(stream, ew::out(static_cast<__half*>(t.data), 1) = INFINITY);
        }
        reduce.ready(stream, i);
        sharded.ready(stream, i);
      }
      reduce.finish(stream);
      plain.step(stream, reduce.gradients(), one);
      sharded.step(stream, two);
    }
    comm.synchronize(stream);
    std::string const a = bytes_of(stream, whole.parameters);
    std::string const b = bytes_of(stream, sharded.parameters());
    double most = 0.0;
    for (std::size_t k = 0; k < a.size(); k += sizeof(__half)) {
      __half x, y;
      std::memcpy(&x, &a[k], sizeof x);
      std::memcpy(&y, &b[k], sizeof y);
      most = std::fmax(most, std::abs(static_cast<double>(__half2float(x) - __half2float(y))));
    }
    return std::to_string(one.status(stream).skipped) + " " +
           std::to_string(two.status(stream).skipped) +
           (most <= 0.001 ? " alike" : " differ by " + std::to_string(most));
  });
  INFO(texts(all));
  for (ranks::result const& r : all) REQUIRE(r.text == "1 1 alike");
}

TEST_CASE("tensors of several types are refused") {
  ranks::folder const files;
  auto const all = ranks::run(1, [&](int) {
    ww::communicator comm{ww::rendezvous::file(files / "a", 0, 1),
                          ww::communicator_options{}.deadline(20.0)};
    ww::stream stream;
    ww::memory_pool pool{ww::current_device()};
    ww::device_buffer<float> memory{pool, stream, 8};
    ww::tensor_list parameters;
    parameters.add("a", memory.data(), 4);
    parameters.add("b", reinterpret_cast<__half*>(memory.data() + 4), 4);
    ww::sharded_optimizer<ww::adamw> const sharded{comm, pool, stream, parameters};
    return std::string{"made"};
  });
  REQUIRE(all[0].has("the tensors 'a' and 'b' have different types"));
}

}  // namespace
