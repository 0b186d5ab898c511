// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"

#include <warpwright/memory/plan.hpp>

#include <cmath>
#include <cstdint>
#include <iostream>
#include <random>
#include <string>

namespace ww = warpwright;
using ww::optimizer_kind;
using ww::precision;
using ww::recomputation;
using ww::zero_stage;

namespace {

constexpr std::uint64_t most = ~std::uint64_t{0};
constexpr std::uint64_t kib = 1024;
constexpr std::uint64_t gib = kib * kib * kib;
constexpr std::uint64_t billion = 1000000000;

// Llama 2, arXiv:2307.09288: 70B has grouped-query attention with 8 heads of keys and values.
constexpr auto llama2_70b = ww::transformer_shape{}.layers(80).hidden(8192).heads(64).kv_heads(8);
// OPT, arXiv:2205.01068, table 1.
constexpr auto opt_13b = ww::transformer_shape{}.layers(40).hidden(5120).heads(40);
// GPT-3, arXiv:2005.14165, table 2.1; MT-NLG 530B, arXiv:2201.11990.
constexpr auto gpt3_175b = ww::transformer_shape{}.layers(96).hidden(12288).heads(96);
constexpr auto mt_nlg_530b = ww::transformer_shape{}.layers(105).hidden(20480).heads(128);

}  // namespace

static_assert(ww::storage_bytes(10, precision::fp64) == 80, "");
static_assert(ww::storage_bytes(10, precision::fp32) == 40, "");
static_assert(ww::storage_bytes(10, precision::tf32) == 40, "");
static_assert(ww::storage_bytes(10, precision::fp16) == 20, "");
static_assert(ww::storage_bytes(10, precision::bf16) == 20, "");
static_assert(ww::storage_bytes(10, precision::fp8_e4m3) == 10, "");
static_assert(ww::storage_bytes(10, precision::fp8_e5m2) == 10, "");
static_assert(ww::storage_bytes(10, precision::int8) == 10, "");
static_assert(ww::storage_bytes(10, precision::int4) == 5, "");
static_assert(ww::storage_bytes(11, precision::int4) == 6, "an odd element has its own byte");
static_assert(ww::storage_bytes(0, precision::int4) == 0, "");
static_assert(ww::bits_of(precision::int4) == 4 && ww::bits_of(precision::fp64) == 64, "");

static_assert(ww::optimizer_bytes_per_parameter(optimizer_kind::sgd) == 0, "");
static_assert(ww::optimizer_bytes_per_parameter(optimizer_kind::sgd_momentum) == 4, "");
static_assert(ww::optimizer_bytes_per_parameter(optimizer_kind::adam) == 8, "");
static_assert(ww::optimizer_bytes_per_parameter(optimizer_kind::adam_8bit) == 2, "");
static_assert(ww::optimizer_bytes_per_parameter(optimizer_kind::adam, precision::bf16) == 4, "");
static_assert(ww::optimizer_bytes_per_parameter(optimizer_kind::adam, precision::fp64) == 16, "");
static_assert(ww::optimizer_bytes_per_parameter(optimizer_kind::adam, precision::int4) == 1, "");
static_assert(ww::optimizer_bytes_per_parameter(optimizer_kind::sgd_momentum, precision::int4) == 1,
              "rounded up");
static_assert(ww::optimizer_bytes_per_parameter(optimizer_kind::adam_8bit, precision::fp64) == 2,
              "");

// ZeRO, figure 1 and table 1: 7.5 billion parameters, mixed-precision Adam, 64 devices.
constexpr auto zero_7_5b = ww::training_plan{}.parameters(7500000000).mixed_precision();
static_assert(zero_7_5b.total_bytes() == 120 * billion, "120 GB");
static_assert(zero_7_5b.sharded(zero_stage::optimizer, 64).total_bytes() == 31406250000, "31.4 GB");
static_assert(zero_7_5b.sharded(zero_stage::gradients, 64).total_bytes() == 16640625000, "16.6 GB");
static_assert(zero_7_5b.sharded(zero_stage::parameters, 64).total_bytes() == 1875000000, "1.9 GB");
static_assert(zero_7_5b.sharded(zero_stage::none, 64).total_bytes() == 120 * billion, "");
// ZeRO, section 3.1: GPT-2 with 1.5 billion parameters needs at least 24 GB, though its weights
// take 3 GB in 16 bits.
static_assert(ww::training_plan{}.parameters(3 * billion / 2).mixed_precision().total_bytes() ==
                  24 * billion,
              "24 GB");
static_assert(ww::inference_plan{}.parameters(3 * billion / 2).total_bytes() == 3 * billion, "");
// ZeRO, section 5.4: a trillion parameters need 16 TB.
static_assert(ww::training_plan{}.parameters(1000 * billion).mixed_precision().total_bytes() ==
                  16000 * billion,
              "16 TB");
// GPT-3: 175 billion parameters, 350 GB in 16 bits, 2.8 TB to train.
static_assert(ww::inference_plan{}.parameters(175 * billion).total_bytes() == 350 * billion, "");
static_assert(ww::training_plan{}.parameters(175 * billion).mixed_precision().total_bytes() ==
                  2800 * billion,
              "");

// PagedAttention (Kwon et al., SOSP 2023, arXiv:2309.06180), section 3: one token of OPT-13B takes
// 800 KB = 2 x 5120 x 40 x 2 bytes; 2048 tokens take 1.6 GB.
static_assert(ww::kv_cache_bytes(opt_13b, 1) == 800 * kib, "");
static_assert(ww::kv_cache_bytes(opt_13b, 2048) == 1600 * kib * kib, "");
// Llama 2 70B: 2 x 80 layers x 8 heads x 128 x 2 bytes = 320 KiB a token, an eighth of what 64
// heads of keys and values would take.
static_assert(ww::kv_cache_bytes(llama2_70b, 1) == 320 * kib, "");
static_assert(ww::kv_cache_bytes(llama2_70b.kv_heads(0), 1) == 2560 * kib, "multi-head");
static_assert(ww::kv_cache_bytes(llama2_70b.kv_heads(1), 1) == 40 * kib, "multi-query");
static_assert(ww::kv_cache_bytes(llama2_70b, 4096, 8, precision::fp8_e4m3) == 5 * gib, "");
static_assert(ww::kv_cache_bytes(llama2_70b.head_size(256), 1) == 640 * kib, "");
static_assert(ww::kv_cache_bytes(llama2_70b, 0) == 0, "");

// Recompute, section 4.1, equation (1), and section 5: for GPT-3 and MT-NLG with 2048 tokens the
// score term 5 a s / h is 80 and 64 beside the 34, so that selective recomputation saves 70 % and
// 65 %.
constexpr std::uint64_t gpt3_sbh = 2048 * 12288;
static_assert(ww::transformer_activation_bytes(gpt3_175b.layers(1), 2048) == gpt3_sbh * (34 + 80),
              "");
static_assert(ww::transformer_activation_bytes(gpt3_175b, 2048, 3) == 96 * 3 * gpt3_sbh * (34 + 80),
              "");
static_assert(ww::transformer_activation_bytes(gpt3_175b.layers(1), 2048, 1, precision::bf16,
                                               recomputation::selective) == gpt3_sbh * 34,
              "");
static_assert(ww::transformer_activation_bytes(gpt3_175b.layers(1), 2048, 1, precision::fp16,
                                               recomputation::full) == gpt3_sbh * 2,
              "");
static_assert(ww::transformer_activation_bytes(mt_nlg_530b.layers(1), 2048) ==
                  std::uint64_t{2048} * 20480 * (34 + 64),
              "");
// By hand for fp32: 16 elements of 4 bytes and 2 bytes of masks; scores twice 4 bytes and 1.
static_assert(ww::transformer_activation_bytes(gpt3_175b.layers(1), 2048, 1, precision::fp32) ==
                  gpt3_sbh * 66 + std::uint64_t{96} * 2048 * 2048 * 9,
              "");
// Recompute, section 4.3: the embedding's dropout s b h, and 4 s b h (1 + v / h) at the end.
static_assert(ww::transformer_activation_bytes(gpt3_175b.vocabulary(51200), 2048) ==
                  96 * gpt3_sbh * 114 + gpt3_sbh + 4 * gpt3_sbh + std::uint64_t{4} * 2048 * 51200,
              "");

static_assert(ww::fits(zero_7_5b, 120 * billion), "to the byte");
static_assert(!ww::fits(zero_7_5b, 120 * billion - 1), "to the byte");
static_assert(ww::largest_batch(ww::inference_plan{}.parameters(10), 19) == 0, "");
static_assert(ww::largest_batch(ww::inference_plan{}.parameters(10), 20) == ww::unlimited_batch,
              "");

TEST_CASE("a plan lists the memory by use") {
  auto const plan = zero_7_5b.activations_per_item(1000).batch(3).workspace_bytes(7);
  ww::memory_breakdown const b = plan.breakdown();
  CHECK(b.weights_bytes == 15 * billion);
  CHECK(b.gradients_bytes == 15 * billion);
  CHECK(b.master_weights_bytes == 30 * billion);
  CHECK(b.optimizer_bytes == 60 * billion);
  CHECK(b.activations_bytes == 6000);
  CHECK(b.kv_cache_bytes == 0);
  CHECK(b.workspace_bytes == 7);
  CHECK(b.total_bytes() == 120 * billion + 6007);
  CHECK(plan.total_bytes() == b.total_bytes());
  CHECK(plan.batch() == 3);
}

TEST_CASE("precision and optimizer of a training plan") {
  auto const plan = ww::training_plan{}.parameters(1001);
  CHECK(plan.total_bytes() == 16 * 1001);  // fp32: 4 + 4 + 8
  CHECK(plan.optimizer(optimizer_kind::sgd).total_bytes() == 8 * 1001);
  CHECK(plan.optimizer(optimizer_kind::sgd_momentum).total_bytes() == 12 * 1001);
  // Two 4-bit values share a byte; those of a moment are an array.
  auto const short_state = plan.optimizer_precision(precision::int4);
  CHECK(short_state.optimizer(optimizer_kind::sgd_momentum).breakdown().optimizer_bytes == 501);
  CHECK(short_state.breakdown().optimizer_bytes == 2 * 501);
  CHECK(short_state.optimizer(optimizer_kind::sgd).breakdown().optimizer_bytes == 0);
  CHECK(short_state.optimizer(optimizer_kind::adam_8bit).breakdown().optimizer_bytes == 2 * 1001);
  CHECK(plan.optimizer(optimizer_kind::adam_8bit).total_bytes() == 10 * 1001);
  CHECK(plan.uniform_precision(precision::fp64).total_bytes() == 24 * 1001);
  CHECK(plan.mixed_precision(precision::fp16).total_bytes() == 16 * 1001);
  CHECK(plan.mixed_precision(precision::fp8_e4m3).total_bytes() == 14 * 1001);
  CHECK(plan.mixed_precision().gradient_precision(precision::fp32).total_bytes() == 18 * 1001);
  CHECK(plan.mixed_precision().uniform_precision(precision::bf16).total_bytes() == 12 * 1001);
  auto const all_bf16 =
      plan.uniform_precision(precision::bf16).optimizer_precision(precision::bf16);
  CHECK(all_bf16.total_bytes() == 8 * 1001);
  CHECK(all_bf16.optimizer(optimizer_kind::sgd_momentum).total_bytes() == 6 * 1001);
  auto const items = plan.mixed_precision().activations_per_item(10).batch(2);
  CHECK(items.breakdown().activations_bytes == 40);
  CHECK(items.activation_precision(precision::fp32).breakdown().activations_bytes == 80);
  // 1001 parameters on 4 devices: the largest part counts.
  CHECK(plan.sharded(zero_stage::parameters, 4).total_bytes() == 16 * 251);
  CHECK(plan.sharded(zero_stage::gradients, 4).total_bytes() == 4 * 1001 + 12 * 251);
  CHECK(plan.mixed_precision().sharded(zero_stage::optimizer, 4).total_bytes() ==
        4 * 1001 + 12 * 251);
}

TEST_CASE("a training plan with a transformer's activations") {
  auto const plan = ww::training_plan{}.mixed_precision().transformer(gpt3_175b, 2048).batch(2);
  CHECK(plan.breakdown().activations_bytes ==
        ww::transformer_activation_bytes(gpt3_175b, 2048, 2, precision::bf16));
  CHECK(plan.activations_per_item(5).breakdown().activations_bytes ==
        plan.breakdown().activations_bytes + 20);
  CHECK(plan.transformer(gpt3_175b, 2048, recomputation::full).total_bytes() ==
        96 * 2 * gpt3_sbh * 2);
}

TEST_CASE("an inference plan") {
  auto const plan = ww::inference_plan{}
                        .parameters(70 * billion, precision::int4)
                        .kv_cache(llama2_70b, 4096)
                        .activations_per_item(8192, precision::fp32)
                        .workspace_bytes(gib)
                        .batch(8);
  ww::memory_breakdown const b = plan.breakdown();
  CHECK(b.weights_bytes == 35 * billion);
  CHECK(b.kv_cache_bytes == 10 * gib);
  CHECK(b.activations_bytes == 8 * 8192 * 4);
  CHECK(b.gradients_bytes + b.master_weights_bytes + b.optimizer_bytes == 0);
  CHECK(plan.total_bytes() == 35 * billion + 11 * gib + 8 * 8192 * 4);
  CHECK(plan.kv_cache(llama2_70b, 4096, precision::int8).breakdown().kv_cache_bytes == 5 * gib);
  CHECK(plan.batch(0).breakdown().kv_cache_bytes == 0);
}

TEST_CASE("the reserve stays free, rounded up") {
  CHECK(ww::usable_bytes(1000, 0.0) == 1000);
  CHECK(ww::usable_bytes(1000, 0.25) == 750);
  CHECK(ww::usable_bytes(1001, 0.5) == 500);
  CHECK(ww::usable_bytes(0, 0.5) == 0);
  CHECK(ww::usable_bytes(1, 0.999) == 0);
  CHECK(ww::usable_bytes(most, 0.0) == most);
  CHECK(ww::usable_bytes(most, 0.5) == most / 2);
  auto const plan = ww::inference_plan{}.parameters(375);
  CHECK(ww::fits(plan, 1000, 0.25));
  CHECK_FALSE(ww::fits(plan, 999, 0.25));
  double const nan = std::nan("");
  for (double bad : {-0.1, 1.0, 2.0, nan}) {
    CHECK_THROWS_WITH(ww::usable_bytes(1000, bad), contains("give a fraction from 0 to below 1"));
    CHECK_THROWS_AS(ww::fits(plan, 1000, bad), std::invalid_argument);
    CHECK_THROWS_AS(ww::largest_batch(plan, 1000, bad), std::invalid_argument);
  }
}

TEST_CASE("inconsistent plans throw and name the numbers") {
  using shape = ww::transformer_shape;
  CHECK_THROWS_WITH(ww::kv_cache_bytes(shape{}.layers(2).hidden(64), 1),
                    contains("2 layers, hidden 64 and 0 heads; each must be at least 1"));
  CHECK_THROWS_WITH(ww::kv_cache_bytes(shape{}.layers(2).heads(4), 1), contains("hidden 0"));
  CHECK_THROWS_WITH(ww::kv_cache_bytes(shape{}.hidden(64).heads(4), 1), contains("0 layers"));
  CHECK_THROWS_WITH(ww::kv_cache_bytes(shape{}.layers(2).hidden(65).heads(4), 1),
                    contains("hidden 65 is no multiple of 4 heads; give the head_size"));
  CHECK(ww::kv_cache_bytes(shape{}.layers(2).hidden(65).heads(4).head_size(16), 1) == 512);
  CHECK_THROWS_WITH(ww::kv_cache_bytes(llama2_70b.kv_heads(7), 1),
                    contains("7 heads of keys and values do not divide 64 query heads"));
  CHECK_THROWS_AS(ww::kv_cache_bytes(llama2_70b.kv_heads(128), 1), std::invalid_argument);
  CHECK_THROWS_AS(ww::transformer_activation_bytes(shape{}, 1), std::invalid_argument);
  CHECK_THROWS_AS(ww::training_plan{}.transformer(shape{}, 1).total_bytes(), std::invalid_argument);
  CHECK_THROWS_AS(ww::inference_plan{}.kv_cache(shape{}, 1).total_bytes(), std::invalid_argument);
  CHECK_THROWS_AS(ww::fits(ww::inference_plan{}.kv_cache(shape{}, 1), 1), std::invalid_argument);
  CHECK_THROWS_WITH(ww::training_plan{}.sharded(zero_stage::optimizer, 0).total_bytes(),
                    contains("sharded among 0 devices; at least 1"));
  CHECK_THROWS_WITH(ww::kv_cache_bytes(shape{}, 1), contains("plan_test.cpp"));
}

TEST_CASE("sizes beyond 64 bits throw and are never wrapped") {
  CHECK(ww::storage_bytes(most / 2, precision::fp16) == most - 1);
  CHECK(ww::storage_bytes(most - 1, precision::int4) == most / 2);
  CHECK_THROWS_AS(ww::storage_bytes(most, precision::int4), std::invalid_argument);
  CHECK_THROWS_AS(ww::kv_cache_bytes(llama2_70b, most, 1, precision::int4), std::invalid_argument);
  CHECK_THROWS_WITH(ww::storage_bytes(most / 2 + 1, precision::fp16),
                    contains("9223372036854775808 elements of fp16 need more than"));
  CHECK_THROWS_AS(ww::storage_bytes(most, precision::fp64), std::invalid_argument);
  CHECK_THROWS_WITH(ww::kv_cache_bytes(llama2_70b, most / 1000, 5),
                    contains("80 layers, hidden 8192, 64 heads"));
  CHECK_THROWS_WITH(
      ww::transformer_activation_bytes(gpt3_175b, std::uint64_t{1} << 32U),
      contains("activations of 96 layers, hidden 12288, 96 heads, 4294967296 tokens"));
  auto const plan = ww::training_plan{}.parameters(most / 16 + 1);  // 2^60 of them
  CHECK_THROWS_WITH(plan.total_bytes(), contains("training with 1152921504606846976 parameters"));
  CHECK(plan.breakdown().weights_bytes == std::uint64_t{1} << 62U);
  CHECK(plan.breakdown().total_bytes() == most);
  CHECK_FALSE(ww::fits(plan, most));
  CHECK(ww::largest_batch(plan, most) == 0);
  CHECK_THROWS_WITH(ww::inference_plan{}.parameters(most).total_bytes(),
                    contains("inference with 18446744073709551615 parameters"));
  // A factor of 0 makes a product 0 also beside a saturated factor.
  CHECK(ww::kv_cache_bytes(llama2_70b, most, 0) == 0);
  CHECK(ww::inference_plan{}.activations_per_item(most).batch(0).total_bytes() == 0);
}

TEST_CASE("the largest batch fits and one more does not") {
  std::uint64_t const seed = std::random_device{}();
  std::cout << "seed " << seed << '\n';
  std::mt19937_64 random{seed};
  auto const up_to = [&random](std::uint64_t limit) { return random() % limit + 1; };
  precision const precisions[] = {precision::fp64, precision::fp32,     precision::tf32,
                                  precision::fp16, precision::bf16,     precision::fp8_e4m3,
                                  precision::int8, precision::fp8_e5m2, precision::int4};
  int wrong = 0;
  int none = 0;
  for (int i = 0; i < 2000; ++i) {
    std::uint64_t const heads = up_to(64);
    auto const shape = ww::transformer_shape{}
                           .layers(up_to(100))
                           .heads(heads)
                           .kv_heads(up_to(2) == 1 ? heads : 1)
                           .hidden(heads * up_to(200))
                           .vocabulary(random() % 2 * up_to(100000));
    std::uint64_t const device = up_to(std::uint64_t{1} << up_to(45));
    double const reserve = static_cast<double>(random() % 100) / 100.0;
    auto const check = [&](auto const& plan) {
      std::uint64_t const best = ww::largest_batch(plan, device, reserve);
      std::uint64_t const usable = ww::usable_bytes(device, reserve);
      if (best == 0) ++none;
      if (best != 0 && plan.batch(best).total_bytes() > usable) ++wrong;
      if (best != ww::unlimited_batch && plan.batch(best + 1).total_bytes() <= usable) ++wrong;
      if (best == ww::unlimited_batch) ++wrong;  // every plan here grows with its batch
    };
    precision const p = precisions[random() % 9];
    check(ww::inference_plan{}.parameters(up_to(device), p).kv_cache(shape, up_to(10000), p));
    check(ww::inference_plan{}.parameters(device / 100).activations_per_item(up_to(1000), p));
    check(ww::training_plan{}
              .parameters(up_to(device) / 20)
              .mixed_precision(p)
              .sharded(static_cast<zero_stage>(random() % 4), up_to(8))
              .transformer(shape, up_to(4096), static_cast<recomputation>(random() % 3)));
  }
  CHECK(wrong == 0);
  CHECK(none < 6000);  // else nothing was tested
  CHECK(none > 0);
}

TEST_CASE("the largest batch in closed form") {
  // 80 GiB less 10 %, weights of 35 GB, 1.25 GiB of keys and values a sequence: 31 sequences.
  auto const plan =
      ww::inference_plan{}.parameters(70 * billion, precision::int4).kv_cache(llama2_70b, 4096);
  std::uint64_t const left = ww::usable_bytes(80 * gib, 0.1) - 35 * billion;
  CHECK(ww::largest_batch(plan, 80 * gib, 0.1) == left / (5 * gib / 4));
  CHECK(ww::largest_batch(plan.batch(1000), 80 * gib, 0.1) == 31);
  // One int4 element an item: two items a byte.
  CHECK(ww::largest_batch(ww::inference_plan{}.activations_per_item(1, precision::int4), 100) ==
        200);
  CHECK(ww::largest_batch(ww::inference_plan{}.activations_per_item(1, precision::int8),
                          most - 1) == most - 1);
}

TEST_CASE("a plan as text") {
  auto const plan = ww::inference_plan{}
                        .parameters(70 * billion, precision::int4)
                        .kv_cache(llama2_70b, 4096)
                        .batch(8);
  CHECK(ww::explain(plan) ==
        "inference, batch 8: 42.6 GiB\n"
        "  weights 32.6 GiB\n"
        "  KV cache 10 GiB");
  CHECK(ww::explain(plan, 80 * gib, 0.1) ==
        "inference, batch 8: 42.6 GiB\n"
        "  weights 32.6 GiB\n"
        "  KV cache 10 GiB\n"
        "fits in 72 GiB (80 GiB less a reserve), 29.4 GiB left; largest batch 31");
  CHECK(ww::explain(plan.batch(100), 80 * gib) ==
        "inference, batch 100: 157.6 GiB\n"
        "  weights 32.6 GiB\n"
        "  KV cache 125 GiB\n"
        "does not fit in 80 GiB, 77.6 GiB too much; largest batch 37");
  CHECK(ww::explain(zero_7_5b.activations_per_item(300).workspace_bytes(2048 * kib), 80 * gib) ==
        "training, batch 1: 111.76 GiB\n"
        "  weights 13.97 GiB\n"
        "  master weights 27.94 GiB\n"
        "  gradients 13.97 GiB\n"
        "  optimizer state 55.88 GiB\n"
        "  activations 600 bytes\n"
        "  workspace 2 MiB\n"
        "does not fit in 80 GiB, 31.76 GiB too much; no batch fits");
  CHECK(ww::explain(ww::inference_plan{}.parameters(512), 2048) ==
        "inference, batch 1: 1 KiB\n"
        "  weights 1 KiB\n"
        "fits in 2 KiB, 1 KiB left; largest batch unlimited");
  CHECK_THROWS_AS(ww::explain(ww::inference_plan{}.parameters(most)), std::invalid_argument);
  CHECK_THROWS_AS(ww::explain(plan, gib, 1.0), std::invalid_argument);
  CHECK(std::string{ww::to_string(precision::int4)} == "int4");
  CHECK(std::string{ww::to_string(precision::fp8_e5m2)} == "fp8 e5m2");
}
