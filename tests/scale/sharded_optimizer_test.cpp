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
using ranks::expect;

std::vector<std::size_t> const sizes{1000, 30, 7001, 7, 200};

// Tensors in device memory.
template <class T>
struct tensors {
  tensors(ww::memory_pool& pool, ww::stream_ref stream) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      memory.emplace_back(pool, stream, sizes[i]);
      ew::run(stream, ew::out(memory[i].data(), sizes[i]) =
                          0.01F * ew::cast<float>(ew::index() % 17) + 0.1F * static_cast<float>(i));
      list.add("p" + std::to_string(i), memory[i].data(), sizes[i]);
    }
  }
  std::vector<ww::device_buffer<T>> memory;
  ww::tensor_list list;
};

std::string bytes_of(ww::stream const& stream, ww::tensor_list const& list) {
  std::string all;
  for (ww::tensor const& t : list) {
    std::string one(t.bytes(), 0);
    ww::check(cudaMemcpyAsync(&one[0], t.data, t.bytes(), cudaMemcpyDefault, stream.get()), "copy");
    stream.synchronize();
    all += one;
  }
  return all;
}

// A network of which each parameter is a layer, with a whole optimizer and with a sharded one.
template <class T, class Optimizer>
struct trainings {
  trainings(int rank, int count, typename Optimizer::options const& with,
            char const* file = "store")
      : comm{ranks::meet(rank, count, file), ranks::within(ranks::patient(20.0))},
        reduce{comm, pool, stream, parameters.list, reducing},
        whole{pool, stream, parameters.list, with},
        sharded{comm, pool, stream, tensors<T>{pool, stream}.list, with, reducing} {}
  template <class To, class Spoil>
  void pass(ww::stream_ref s, ww::tensor_list const& of, To& to, Spoil const& spoil) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      auto const* const parameter = static_cast<T const*>(of[i].data);
      ew::run(s, ew::out(outputs.memory[i].data(), sizes[i]) = ew::in(parameter, sizes[i]) * 0.5F);
    }
    for (std::size_t i = sizes.size(); i-- > 0;) {
      ew::run(s, ew::out(static_cast<T*>(to.gradients()[i].data), sizes[i]) =
                     ew::in(outputs.memory[i].data(), sizes[i]) +
                     0.125F * ew::cast<float>((ew::index() + std::uint64_t(comm.rank())) % 13) -
                     0.5F);
      spoil(to.gradients()[i], i);
      to.ready(s, i);
    }
  }
  void step(ww::stream_ref s) {
    auto const keep = [](ww::tensor const&, std::size_t) {};
    pass(s, parameters.list, reduce, keep);
    reduce.finish(s);
    whole.step(s, reduce.gradients());
    pass(s, sharded.parameters(), sharded, keep);
    sharded.step(s);
  }
  std::string of_whole() const { return bytes_of(stream, parameters.list); }
  std::string of_sharded() const { return bytes_of(stream, sharded.parameters()); }

  ww::gradient_reducer_options reducing =
      ww::gradient_reducer_options{}.bucket_bytes(8192).type(ww::detail::element_type_of<T>::value);
  ww::stream stream;
  ww::memory_pool pool{ww::current_device()};
  tensors<T> parameters{pool, stream}, outputs{pool, stream};
  ww::communicator comm;
  ww::gradient_reducer reduce;
  Optimizer whole;
  ww::sharded_optimizer<Optimizer> sharded;
};

TEST_CASE("whole steps, captured as one graph, have the bits of eager ones") {
  auto const all = ranks::run(2, [](int rank) {
    auto const with = ww::adamw_options{}.clip(1.0F);
    trainings<float, ww::adamw> eager{rank, 2, with, "eager"};
    trainings<float, ww::adamw> captured{rank, 2, with, "captured"};
    std::string const first = eager.of_whole();
    ww::graph_replay graph{0};
    for (int k = 0; k < 5; ++k) eager.step(eager.stream);
    eager.comm.synchronize(eager.stream);
    auto const step = [&](ww::stream_ref s) { captured.step(s); };
    for (int k = 0; k < 5; ++k) graph.run(captured.stream, step);
    captured.comm.synchronize(captured.stream);
    return std::string{eager.of_whole() == first ? "no step" : "trained"} +
           (captured.of_whole() == eager.of_whole() ? ", same bits" : ", other bits") +
           (captured.of_sharded() == eager.of_sharded() ? ", same parts" : ", other parts");
  });
  expect(all, {"trained, same bits, same parts"});
}

template <class T, class Optimizer>
std::string compare(int rank, int count, typename Optimizer::options const& with,
                    char const* file) {
  trainings<T, Optimizer> t{rank, count, with, file};
  for (int step = 0; step < 5; ++step) t.step(t.stream);
  t.comm.synchronize(t.stream);
  ww::tensor_list all, own;
  t.whole.add_to(all);
  t.sharded.add_to(own);
  double const share = static_cast<double>(own.bytes()) / static_cast<double>(all.bytes());
  return std::string{t.of_whole() == t.of_sharded() ? "same" : "other"} + " bits, " +
         (std::abs(share * count - 1.0) < 0.1 ? "a part" : std::to_string(share)) + "; ";
}

TEST_CASE("a sharded step has the bits of a whole one, and a part of its state") {
  int const count = GENERATE(2, 3);
  // Of more than two numbers NCCL's sums differ with the collective.
  if (count > 2 && WARPWRIGHT_HOST_RUNTIME == 0) return;
  auto const all = ranks::run(count, [&](int rank) {
    return compare<float, ww::adamw>(rank, count, ww::adamw_options{}.decay(0.1F), "adamw") +
           compare<float, ww::sgd>(rank, count, {}, "sgd") +
           compare<__nv_bfloat16, ww::lion>(rank, count, {}, "lion");
  });
  expect(all, {"same bits, a part; same bits, a part; same bits, a part; "});
}

// The norm of all gradients is that of the whole, and an infinity in one part stops all.
TEST_CASE("all ranks clip alike, and skip alike") {
  auto const all = ranks::run(2, [](int rank) {
    auto const with = ww::adamw_options{}.rate(0.1F).clip(0.5F);
    trainings<__half, ww::adamw> t{rank, 2, with};
    ww::loss_scaler one{t.pool, t.stream}, two{t.pool, t.stream};
    for (int step = 0; step < 5; ++step) {
      auto const spoil = [&](ww::tensor const& gradient, std::size_t i) {
        if (step != 2 || i != 0) return;  // of this one rank 0 has the sum, and rank 1 not
        ew::run(t.stream, ew::out(static_cast<__half*>(gradient.data), 1) = INFINITY);
      };
      t.pass(t.stream, t.parameters.list, t.reduce, spoil);
      t.reduce.finish(t.stream);
      t.whole.step(t.stream, t.reduce.gradients(), one);
      t.pass(t.stream, t.sharded.parameters(), t.sharded, spoil);
      t.sharded.step(t.stream, two);
    }
    t.comm.synchronize(t.stream);
    std::string const a = t.of_whole(), b = t.of_sharded();
    double most = 0.0;
    for (std::size_t k = 0; k < a.size(); k += sizeof(__half)) {
      __half x, y;
      std::memcpy(&x, &a[k], sizeof x);
      std::memcpy(&y, &b[k], sizeof y);
      most = std::fmax(most, std::abs(static_cast<double>(__half2float(x) - __half2float(y))));
    }
    return std::to_string(one.status(t.stream).skipped) + " " +
           std::to_string(two.status(t.stream).skipped) +
           (most <= 0.002 ? " alike" : " differ by " + std::to_string(most));
  });
  expect(all, {"1 1 alike"});
}

TEST_CASE("tensors of several types are refused") {
  auto const all = ranks::run(1, [](int) {
    ww::communicator comm{ranks::meet(0, 1)};
    ww::stream stream;
    ww::memory_pool pool{ww::current_device()};
    ww::device_buffer<float> memory{pool, stream, 8};
    ww::tensor_list parameters;
    parameters.add("a", memory.data(), 4);
    parameters.add("b", reinterpret_cast<__half*>(memory.data() + 4), 4);
    ww::sharded_optimizer<ww::adamw> const sharded{comm, pool, stream, parameters};
    return std::string{"made"};
  });
  expect(all, {"...the tensors 'a' and 'b' have different types"});
}

}  // namespace
