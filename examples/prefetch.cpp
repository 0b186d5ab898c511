// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The energy and the peak of each record of a sensor. Two threads decode records ahead, some of
// which take ten times as long as others; one graph a slot reads them; results come back behind it.
#include <warpwright/graph/graph_cache.hpp>
#include <warpwright/kernel/reduce_matrix.hpp>
#include <warpwright/memory/pinned.hpp>
#include <warpwright/memory/pool.hpp>
#include <warpwright/stream/collect.hpp>
#include <warpwright/stream/prefetch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <vector>

namespace ww = warpwright;
namespace ew = warpwright::ew;

namespace {

constexpr std::size_t samples = 2048;  // of a record
constexpr std::size_t records = 1000;
constexpr std::size_t batch_records = 32;  // the last batch has 8

// Decodes a record: each sample is a difference from the one before, every ninth record has noise
// to take out.
void decode(std::size_t record, std::int16_t* to) {
  std::uint32_t state = static_cast<std::uint32_t>(record) * 2654435761U + 1U;
  std::int32_t level = 0;
  for (std::size_t i = 0; i < samples; ++i) {
    for (int round = record % 9 == 0 ? 30 : 3; round > 0; --round) state = state * 1664525U + 1U;
    level = (level * 15 + static_cast<std::int32_t>(state >> 17U) - 16384) / 16;
    to[i] = static_cast<std::int16_t>(level);
  }
}

// The source: called by both threads at once, so it writes nothing but its batch.
std::size_t fill(std::int16_t* to, std::size_t batch) {
  std::size_t const first = batch * batch_records;
  if (first >= records) return 0;  // there is no such batch, nor a later one
  std::size_t const count = records - first < batch_records ? records - first : batch_records;
  for (std::size_t r = 0; r < count; ++r) decode(first + r, to + r * samples);
  return count * samples;
}

bool differs(float found, double expected) {
  return !(std::fabs(static_cast<double>(found) - expected) <= 1e-5 * (1.0 + expected));
}

// The number of records whose results differ from those of the host.
std::size_t count_wrong(std::vector<float> const& energy, std::vector<float> const& peak) {
  std::size_t wrong = 0;
  std::vector<std::int16_t> again(samples);
  for (std::size_t r = 0; r < records; ++r) {
    decode(r, again.data());
    double squares = 0.0;
    double largest = 0.0;
    for (std::int16_t const value : again) {
      squares += static_cast<double>(value) * value / samples;
      largest = std::fmax(largest, std::abs(value));
    }
    wrong += differs(energy[r], squares) || differs(peak[r], largest) ? 1U : 0U;
  }
  return wrong;
}

int run() {
  ww::memory_pool pool{ww::current_device()};
  ww::pinned_pool pinned;
  ww::stream stream;
  std::vector<float> energy(records), peak(records);
  // The sink: called for one result after another, on a thread of the collector.
  auto const keep = [&](float const* from, std::size_t size, std::size_t batch) {
    auto const first = static_cast<std::ptrdiff_t>(batch * batch_records);
    std::copy_n(from, size / 2, energy.begin() + first);
    std::copy_n(from + size / 2, size / 2, peak.begin() + first);
  };

  ww::graph_cache graphs{ww::graph_cache_options{}.warmups(1).cost_gate(false)};
  // max_bytes(0): the rings stay at four slots, whose addresses go together, so that a key of
  // the batch's slot has one pair of addresses.
  auto const ring = ww::prefetch_options{}.workers(2).depth(4).max_bytes(0);
  ww::result_collector<float> results{pool, pinned, 2 * batch_records, keep, ring};
  ww::prefetcher<std::int16_t> input{pool, pinned, batch_records * samples, fill, ring};
  auto const step = [](ww::stream_ref s, std::int16_t const* from, float* to, std::size_t count) {
    auto const x = ew::cast<float>(ew::in(from, count * samples));
    ew::reduce_rows(s, {count, samples}, ew::to(to) = ew::mean(x * x),
                    ew::to(to + count) = ew::max(ew::abs(x)));
  };
  int replays = 0;
  // Each turn has a batch of its own: its memory goes back at the end, behind the work enqueued.
  while (auto const batch = input.next(stream)) {
    ww::result_slot<float> result = results.next(stream);
    std::size_t const count = batch.size() / samples;
    result.set_size(2 * count);
    auto const done =
        graphs.run(stream, {batch.slot(), count}, step, batch.data(), result.data(), count);
    replays += done == ww::graph_step::replayed ? 1 : 0;
  }
  results.finish();  // throws what went wrong with a result

  std::printf("%d of %zu batches by a graph\n%s%s", replays, (records - 1) / batch_records + 1,
              input.statistics().to_text().c_str(), results.statistics().to_text().c_str());
  std::size_t const wrong = count_wrong(energy, peak);
  if (wrong != 0) std::fprintf(stderr, "%zu of %zu records are wrong\n", wrong, records);
  return wrong == 0 && replays > 0 ? 0 : 1;
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
