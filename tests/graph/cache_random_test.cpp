// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Random programs of launches, copies, fills, forks and pool allocations with changing bindings:
// through a graph_cache the results are bit for bit those of eager runs.
#include "cache_support.hpp"

#include <warpwright/memory/buffer.hpp>
#include <warpwright/memory/pool.hpp>

#include <cstdio>
#include <random>
#include <vector>

using namespace test_support;

namespace {

constexpr std::size_t elements = 32;

struct mix {
  float* out;
  float const* in;
  std::int64_t salt;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    out[i] = out[i] * 0.75F + in[(i * 7 + static_cast<std::uint64_t>(salt)) % elements] +
             static_cast<float>(salt) * 0.125F;
  }
};

// What a key does: the operations of a step, of its seed.
struct operation {
  int kind;
  int a;
  int b;
  int salt;
};

std::vector<operation> make_program(unsigned seed) {
  std::mt19937 random{seed};
  std::vector<operation> program(1 + random() % 8);
  for (operation& o : program) {
    o.kind = static_cast<int>(random() % 6);
    o.a = static_cast<int>(random() % 3);
    o.b = static_cast<int>((static_cast<unsigned>(o.a) + 1 + random() % 2) % 3);
    o.salt = static_cast<int>(random() % 100);
  }
  return program;
}

struct random_step {
  std::vector<operation> const* programs;
  ww::memory_pool* pool;

  void operator()(ww::capture_scope& scope, ww::shape_key const& key, float* x, float* y, float* z,
                  int salt, int shape) const {
    float* const memory[3] = {x, y, z};
    ww::stream_ref const s = scope.stream();
    std::vector<operation> const& program = programs[key[0]];
    std::size_t const count =
        program.size() - (static_cast<std::size_t>(shape) % 2) % program.size();
    for (std::size_t i = 0; i < count; ++i) {
      operation const& o = program[i];
      float* const a = memory[o.a];
      float* const b = memory[o.b];
      switch (o.kind) {
        case 0:
        case 1:
          ww::for_each_index(s, elements, mix{a, b, o.salt + salt});
          break;
        case 2:
          ww::check(cudaMemcpyAsync(a, b, (1 + static_cast<std::size_t>(o.salt) % elements) * 4,
                                    cudaMemcpyDeviceToDevice, s),
                    "cudaMemcpyAsync");
          break;
        case 3:
          ww::check(cudaMemsetAsync(a, 0, 4 * (1 + static_cast<std::size_t>(o.salt) % 8), s),
                    "cudaMemsetAsync");
          break;
        case 4:
          scope.fork(2, [&](ww::stream_ref branch, unsigned n) {
            ww::for_each_index(branch, elements, mix{memory[n], memory[2], o.salt});
          });
          break;
        default: {
          ww::device_buffer<float> scratch{*pool, s, elements};
          ww::check(cudaMemcpyAsync(scratch.data(), b, 4 * elements, cudaMemcpyDeviceToDevice, s),
                    "cudaMemcpyAsync");
          ww::for_each_index(s, elements, mix{scratch.data(), a, o.salt + salt});
          ww::for_each_index(s, elements, mix{a, scratch.data(), o.salt});
        }
      }
    }
  }
};

// Three sets of three arrays, between which the bindings change.
struct state {
  std::vector<float> start;
  device_array<float> memory{9 * elements};
  explicit state(ww::stream_ref s, unsigned seed) : start(9 * elements) {
    std::mt19937 random{seed};
    for (float& f : start) f = static_cast<float>(random() % 1000) * 0.01F;
    ww::check(
        cudaMemcpyAsync(memory.data(), start.data(), start.size() * 4, cudaMemcpyHostToDevice, s),
        "cudaMemcpyAsync");
    s.synchronize();
  }
  float* at(unsigned set, unsigned i) const { return memory.data() + (set * 3 + i) * elements; }
};

}  // namespace

TEST_CASE("graph_cache: random programs are bit-identical to eager runs") {
  unsigned const seed = std::random_device{}();
  std::printf("random programs: seed %u\n", seed);
  std::mt19937 random{seed};
  std::uint64_t replays = 0;
  std::uint64_t changes = 0;
  for (int run = 0; run < 12; ++run) {
    INFO("seed " << seed << ", run " << run);
    ww::memory_pool pool{ww::current_device()};
    ww::stream s;
    ww::stream plain;
    std::vector<operation> programs[6];
    for (auto& p : programs) p = make_program(static_cast<unsigned>(random()));
    random_step const step{programs, &pool};
    unsigned const memory_seed = static_cast<unsigned>(random());
    state const cached{s, memory_seed};
    state const eager{plain, memory_seed};
    ww::graph_cache_options options = ww::graph_cache_options{}
                                          .cost_gate(run % 2 == 0)
                                          .warmups(static_cast<unsigned>(random() % 3))
                                          .variants(static_cast<unsigned>(1 + random() % 3))
                                          .max_entries(1 + random() % 6);
    if (run % 4 == 3) options = options.verify_every(1 + random() % 5);
    ww::graph_cache cache{options};
    unsigned set = 0;
    int salt = 0;
    int shape = 0;
    for (int call = 0; call < 150; ++call) {
      unsigned const key = static_cast<unsigned>(random() % 6);
      if (random() % 4 == 0) set = static_cast<unsigned>(random() % 3);
      if (random() % 16 == 0) salt = static_cast<int>(random() % 3);
      if (random() % 16 == 0) shape = static_cast<int>(random() % 2);
      cache.run(s, {key}, step, cached.at(set, 0), cached.at(set, 1), cached.at(set, 2), salt,
                shape);
      ww::capture_scope scope{plain, ww::capture_scope::without_capture{}};
      step(scope, ww::shape_key{key}, eager.at(set, 0), eager.at(set, 1), eager.at(set, 2), salt,
           shape);
      scope.join_all();
    }
    std::vector<float> const a = cached.memory.fetch(s);
    std::vector<float> const b = eager.memory.fetch(plain);
    REQUIRE(std::memcmp(a.data(), b.data(), 4 * a.size()) == 0);
    ww::graph_cache_statistics const all = cache.statistics();
    CHECK(all.failures == 0);
    replays += all.replays;
    changes += all.updates + all.rebuilds + all.evictions;
    s.synchronize();
    plain.synchronize();
  }
  CHECK(replays > 50);  // how many depends on the seed, and on what the gate measures
  CHECK(changes > 50);
}
