// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/tune/latency_model.hpp>

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstdlib>

WARPWRIGHT_BEGIN

namespace detail {

class bucket_search {
 public:
  bucket_search(std::size_t count, bucket_options const& options, source_location where)
      : count_{count}, options_{options}, where_{where} {
    if (count == 0) fail("0 buckets; at least 1 is needed");
    if (options.multiple_of() == 0) {
      fail("multiple_of(0); it must be at least 1, which allows every size");
    }
  }

  void add(std::size_t size, double weight) {
    if (size == 0) fail(text{"a size of 0 with weight "} + weight + "; sizes are at least 1");
    // A comparison that is false for a NaN.
    if (!(weight >= 0.0 && weight <= DBL_MAX)) {
      fail(text{"the weight "} + weight + " of size " + size +
           "; weights must be finite and not negative");
    }
    if (size > largest_size) {
      fail(text{"a size of "} + size + "; sizes are at most " + largest_size);
    }
    sizes_.push_back(entry{size, size, weight});
  }

  bucket_choice run(function_ref<double(std::size_t)> cost, bool linear) {
    group();
    find_costs(cost, linear);
    choose();
    return summary();
  }

 private:
  static constexpr std::size_t largest_size = std::size_t{1} << 40;
  static constexpr std::size_t most_multiples = std::size_t{1} << 24;
  static constexpr std::size_t most_cells = std::size_t{1} << 27;
  static constexpr double most_value = 1e100;  // products and sums of them are finite

  struct entry {
    std::size_t size;     // rounded up to a multiple
    std::size_t largest;  // the largest size before rounding
    double weight;
  };
  // The candidates: the sizes that occur, rounded up to a multiple. They suffice where the cost
  // never falls: a bucket can shrink to the largest size in it, which costs no more.
  struct candidate {
    std::size_t size;
    std::size_t bucket;  // the cheapest one that is large enough
    double cost;         // of that bucket: never falls from one candidate to the next
    double weight;       // of this candidate and all smaller ones
    double items;        // weight * size before rounding, of this candidate alone
  };

  [[noreturn]] void fail(text const& problem) const {
    throw_invalid_argument(text{"choose_buckets: "} + problem, where_);
  }

  void group() {
    if (sizes_.empty()) fail("an empty histogram; at least one size is needed");
    std::qsort(sizes_.begin(), sizes_.size(), sizeof(entry),
               [](void const* left, void const* right) {
                 std::size_t const a = static_cast<entry const*>(left)->size;
                 std::size_t const b = static_cast<entry const*>(right)->size;
                 return static_cast<int>(a > b) - static_cast<int>(a < b);
               });
    std::size_t const multiple = options_.multiple_of();
    double total = 0.0;
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      entry const& e = sizes_[i];
      // The largest size is covered even if it has no weight.
      if (!(e.weight > 0.0) && i + 1 < sizes_.size()) continue;
      if (multiple > largest_size) {
        fail(text{"multiple_of("} + multiple + "); it must be at most " + largest_size);
      }
      std::size_t const size = ((e.size - 1) / multiple + 1) * multiple;
      total += e.weight;
      double const items = e.weight * static_cast<double>(e.size);
      if (candidates_.empty() || candidates_.back().size != size) {
        candidates_.push_back(candidate{size, size, 0.0, total, items});
      } else {
        candidates_.back().weight = total;
        candidates_.back().items += items;
      }
    }
    if (!(total > 0.0 && total <= most_value)) {
      fail(text{"weights with a sum of "} + total + "; it must be above 0 and at most 1e100");
    }
    std::size_t const largest = options_.largest_bucket() / multiple * multiple;
    if (options_.largest_bucket() != 0 && largest < candidates_.back().size) {
      fail(text{"largest_bucket("} + options_.largest_bucket() + ") does not cover the size " +
           sizes_.back().size + "; raise it to " + candidates_.back().size);
    }
    largest_ = largest > candidates_.back().size ? largest : candidates_.back().size;
  }

  // Where the cost falls somewhere, a larger bucket may be cheaper: each candidate gets the
  // cheapest bucket that is large enough, by a minimum over all multiples from the largest down.
  void find_costs(function_ref<double(std::size_t)> cost, bool linear) {
    if (linear) {
      for (candidate& c : candidates_) c.cost = cost(c.size);
      return;
    }
    std::size_t const multiple = options_.multiple_of();
    std::size_t const first = candidates_.front().size;
    if ((largest_ - first) / multiple >= most_multiples) {
      fail(text{"buckets from "} + first + " to " + largest_ + " in steps of " + multiple +
           "; the cost is computed for each, at most " + most_multiples +
           ": raise multiple_of() or leave the cost out");
    }
    double best = HUGE_VAL;
    std::size_t bucket = 0;
    std::size_t next = candidates_.size();
    for (std::size_t size = largest_; next > 0; size -= multiple) {
      double const value = cost(size);
      if (!(value >= 0.0 && value <= most_value)) {
        fail(text{"a cost of "} + value + " for the bucket " + size +
             "; costs must be from 0 to 1e100");
      }
      if (value <= best) {  // of equal costs the smaller bucket
        best = value;
        bucket = size;
      }
      if (candidates_[next - 1].size == size) {
        --next;
        candidates_[next].cost = best;
        candidates_[next].bucket = bucket;
      }
    }
  }

  double weight_before(std::size_t i) const noexcept {
    return i == 0 ? 0.0 : candidates_[i - 1].weight;
  }

  // Least cost of the first candidates with a number of buckets: best_[end] for sizes before `end`.
  // The last bucket's first candidate never moves down as `end` grows (its cost satisfies the
  // quadrangle inequality), so halving the ends halves the starts to be tried.
  void choose() {
    std::size_t const n = candidates_.size();
    std::size_t const rows = count_ < n ? count_ : n;
    if (rows > 1 && rows - 1 > most_cells / n) {
      fail(text{"a table of "} + count_ + " buckets by " + n + " sizes; at most " + most_cells +
           " cells: raise multiple_of() or merge sizes");
    }
    array<double> before(n + 1);
    array<double> best(n + 1);
    for (std::size_t end = 1; end <= n; ++end) best[end] = bucket_cost(0, end);
    array<std::uint32_t> starts((rows - 1) * n);
    for (std::size_t row = 1; row < rows; ++row) {
      before.swap(best);
      best[0] = 0.0;
      halve(before, best, starts.begin() + (row - 1) * n, 1, n, 0, n - 1);
    }
    std::size_t end = n;
    array<std::size_t> descending;
    for (std::size_t row = rows; end > 0; --row) {
      descending.push_back(end - 1);
      end = row > 1 ? starts[(row - 2) * n + end - 1] : 0;
    }
    for (std::size_t i = descending.size(); i > 0; --i) {
      candidate const& c = candidates_[descending[i - 1]];
      if (!buckets_.empty() && buckets_.back() == c.bucket) continue;
      buckets_.push_back(c.bucket);
      costs_.push_back(c.cost);
    }
  }

  // The candidates from `start` to before `end` in the bucket of the last of them.
  double bucket_cost(std::size_t start, std::size_t end) const noexcept {
    return (candidates_[end - 1].weight - weight_before(start)) * candidates_[end - 1].cost;
  }

  void halve(array<double> const& before, array<double>& best, std::uint32_t* starts,
             std::size_t first_end, std::size_t last_end, std::size_t low, std::size_t high) {
    if (first_end > last_end) return;
    std::size_t const end = first_end + (last_end - first_end) / 2;
    std::size_t chosen = low;
    best[end] = HUGE_VAL;
    for (std::size_t start = low; start <= high && start < end; ++start) {
      double const value = before[start] + bucket_cost(start, end);
      // Sums that differ by rounding are equal: of these the fewest buckets.
      if (value < best[end] * (1.0 - 1e-12)) {
        best[end] = value;
        chosen = start;
      }
    }
    starts[end - 1] = static_cast<std::uint32_t>(chosen);
    halve(before, best, starts, first_end, end - 1, low, chosen);
    halve(before, best, starts, end + 1, last_end, chosen, high);
  }

  bucket_choice summary() const {
    bucket_choice result;
    result.buckets = buckets_;
    double items = 0.0;
    double run = 0.0;
    std::size_t b = 0;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      candidate const& c = candidates_[i];
      while (buckets_[b] < c.size) ++b;
      double const weight = c.weight - weight_before(i);
      result.expected_cost += weight * costs_[b];
      result.exact_cost += weight * c.cost;
      items += c.items;
      run += weight * static_cast<double>(buckets_[b]);
    }
    double const total = candidates_.back().weight;
    result.expected_cost /= total;
    result.exact_cost /= total;
    result.padding_share = items < run ? 1.0 - items / run : 0.0;
    return result;
  }

  std::size_t count_;
  bucket_options options_;
  source_location where_;
  array<entry> sizes_;
  array<candidate> candidates_;
  std::vector<std::size_t> buckets_;
  array<double> costs_;  // of the buckets
  std::size_t largest_ = 0;
};

WARPWRIGHT_COLD WARPWRIGHT_INLINE bucket_choice choose_buckets(
    array<size_weight> const& histogram, std::size_t count, function_ref<double(std::size_t)> cost,
    bool linear, bucket_options const& options, source_location where) {
  bucket_search search{count, options, where};
  for (size_weight const& entry : histogram) search.add(entry.size, entry.weight);
  return search.run(cost, linear);
}

}  // namespace detail

WARPWRIGHT_END
