// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Does it fit? The memory for training and serving a network, part by part, and the largest
// batch; no GPU is needed.
#include <warpwright/memory/plan.hpp>

#include <cstdio>

namespace ww = warpwright;

constexpr std::uint64_t gib = std::uint64_t{1} << 30U;

// Llama 2 70B: 8 heads of keys and values serve 64 heads of queries.
constexpr auto llama = ww::transformer_shape{}.layers(80).hidden(8192).heads(64).kv_heads(8);

// Served with 4-bit weights and sequences of up to 4096 tokens.
constexpr auto serving =
    ww::inference_plan{}.parameters(70000000000, ww::precision::int4).kv_cache(llama, 4096);

// If a longer context lets fewer than 16 sequences fit in 80 GiB, this is a compile
// error.
static_assert(ww::largest_batch(serving, 80 * gib, 0.1) >= 16, "the KV cache outgrew the device");

int main() {
  std::printf("%s\n\n", ww::explain(serving.batch(16), 80 * gib, 0.1).c_str());

  // Training a network like GPT-2 XL: how much memory does recomputing activations save?
  constexpr auto gpt2 = ww::transformer_shape{}.layers(48).hidden(1600).heads(25).vocabulary(50257);
  constexpr auto training = ww::training_plan{}.parameters(1557611200).mixed_precision().batch(4);
  for (auto r : {ww::recomputation::none, ww::recomputation::selective, ww::recomputation::full}) {
    std::printf("%s\n\n", ww::explain(training.transformer(gpt2, 1024, r), 80 * gib, 0.1).c_str());
  }

  // With 64 devices, the sharded parts take 1/64 on each.
  constexpr auto shared = ww::training_plan{}
                              .parameters(7500000000)
                              .mixed_precision()
                              .sharded(ww::zero_stage::parameters, 64);
  std::printf("%s\n", ww::explain(shared).c_str());

  bool const right = ww::kv_cache_bytes(llama, 1) == 320 * 1024 &&
                     shared.total_bytes() == 1875000000 && ww::fits(serving.batch(16), 80 * gib);
  if (!right) std::fprintf(stderr, "wrong answer\n");
  return right ? 0 : 1;
}
