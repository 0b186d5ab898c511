// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
//   for (std::uint64_t i : ww::sharded_indices{count}.seed(1).epoch(e).part(rank, ranks)) { ... }
#pragma once

#include <warpwright/core/error.hpp>

#include <cstdint>
#include <iterator>

WARPWRIGHT_BEGIN

/// The indices that a rank takes in an epoch, as a range. All ranks have the same permutation of
/// [0, count), by seed and epoch, and rank r of n takes its positions r, r + n, r + 2n …; as with
/// PyTorch's DistributedSampler those behind the last are again its first, so that all ranks have
/// as many. Behind k indices of each of n ranks `skip(k * n)` goes on, also with other ranks.
///
/// Setters return a changed copy. **Threads:** a value. **Cost:** no memory; some 20 ns an index.
class sharded_indices {
  using self = sharded_indices;
  // Before its uses: Clang 14 evaluates no call of a template that it has not read yet.
  template <class T>
  constexpr self with(T self::*value, T to) const noexcept {
    self copy = *this;
    copy.*value = to;
    copy.key_ = hash(copy.epoch_, hash(copy.seed_));
    return copy;
  }

 public:
  /// @param count  of the items
  /// @pre it is at most 2^63
  explicit constexpr sharded_indices(std::uint64_t count) noexcept : n_{count} {
    while (n_ > 1 && ((n_ - 1) >> (2 * bits_ + 1)) != 0) ++bits_;
    rest_ = n_ == 0 ? 0 : ((n_ - 1) >> bits_) + 1;
    if (n_ < 1024) rounds_ = 24;
  }

  /// @param value  the same on all ranks; default: 0
  constexpr self seed(std::uint64_t value) const noexcept { return with(&self::seed_, value); }
  /// @param value  each epoch has an order of its own; default: 0
  constexpr self epoch(std::uint64_t value) const noexcept { return with(&self::epoch_, value); }
  /// @param rank   0 to ranks - 1; default: 0
  /// @param ranks  that the indices are divided among, at least 1; default: 1
  /// @throws std::invalid_argument  for other numbers
  constexpr self part(int rank, int ranks,
                      source_location where = source_location::current()) const {
    if (rank < 0 || rank >= ranks) {
      detail::throw_invalid_argument(
          detail::text{"sharded_indices: rank "} + rank + " of " + ranks +
              " ranks; give at least 1, and a rank from 0 to one below their number",
          where);
    }
    return with(&self::rank_, static_cast<std::uint64_t>(rank))
        .with(&self::ranks_, static_cast<std::uint64_t>(ranks));
  }
  /// Leaves out the last indices, fewer than the ranks, instead of giving others twice.
  constexpr self drop_last(bool on = true) const noexcept { return with(&self::drop_last_, on); }
  /// Does not shuffle, as for an evaluation.
  constexpr self in_order() const noexcept { return with(&self::in_order_, true); }
  /// Leaves out what has been done already.
  /// @param positions  of the permutation, before it is divided among ranks; default: 0
  constexpr self skip(std::uint64_t positions) const noexcept {
    return with(&self::skipped_, positions < n_ ? positions : n_);
  }

  /// @return the number of this rank's indices, the same for all ranks
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE constexpr std::uint64_t size() const noexcept {
    std::uint64_t const left = n_ - skipped_;
    return left / ranks_ + (!drop_last_ && left % ranks_ != 0 ? 1U : 0U);
  }
  /// @param k  below size()
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE constexpr std::uint64_t operator[](
      std::uint64_t k) const noexcept {
    std::uint64_t i = skipped_ + k * ranks_ + rank_;
    if (i >= n_) i %= n_;
    return in_order_ ? i : permuted(i);
  }

  /// A forward iterator of values; the range outlives it.
  struct iterator {
    using iterator_category = std::forward_iterator_tag;
    using value_type = std::uint64_t;
    using difference_type = std::ptrdiff_t;
    using pointer = void;
    using reference = std::uint64_t;

    constexpr std::uint64_t operator*() const noexcept { return (*range)[k]; }
    constexpr iterator& operator++() noexcept {
      ++k;
      return *this;
    }
    constexpr iterator operator++(int) noexcept { return {range, k++}; }
    constexpr bool operator==(iterator const& other) const noexcept { return k == other.k; }
    constexpr bool operator!=(iterator const& other) const noexcept { return k != other.k; }

    sharded_indices const* range = nullptr;
    std::uint64_t k = 0;
  };
  [[nodiscard]] constexpr iterator begin() const noexcept { return {this, 0}; }
  [[nodiscard]] constexpr iterator end() const noexcept { return {this, size()}; }

 private:
  WARPWRIGHT_HOST_DEVICE static constexpr std::uint64_t hash(
      std::uint64_t x, std::uint64_t key = 0x9e3779b97f4a7c15U) noexcept {
    x = (x ^ key) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 32U)) * 0x94d049bb133111ebU;
    return x ^ (x >> 32U);
  }
  // A pseudo-random permutation of [0, n): a Feistel network on pairs of a coordinate modulo `rest`
  // and one of some bits (Black and Rogaway, CT-RSA 2002). Values past n, fewer than its root, are
  // put through it again, which on a power of two up to half would be. Luby and Rackoff need four
  // rounds; for small n Mitchell et al. (ACM TOPC 2022, "Bandwidth-Optimal Random Shuffling for
  // GPUs") need 24. So many below 1,024, and eight of two multiplications, pass chi-square tests.
  WARPWRIGHT_HOST_DEVICE constexpr std::uint64_t permuted(std::uint64_t i) const noexcept {
    std::uint64_t const mask = (std::uint64_t{1} << bits_) - 1;
    do {
      std::uint64_t a = i >> bits_, b = i & mask;
      std::uint64_t of_round = key_;
      for (unsigned round = 0; round < rounds_; round += 2, of_round += 0x9e3779b97f4a7c15U) {
        a += ((hash(b, of_round) >> 32U) * rest_) >> 32U;
        if (a >= rest_) a -= rest_;
        b = (b + (hash(a, ~of_round) >> 32U)) & mask;
      }
      i = a << bits_ | b;
    } while (i >= n_);
    return i;
  }

  std::uint64_t n_, rest_ = 0;
  unsigned bits_ = 0, rounds_ = 8;
  std::uint64_t seed_ = 0, epoch_ = 0, key_ = hash(0, hash(0));
  std::uint64_t rank_ = 0, ranks_ = 1, skipped_ = 0;
  bool drop_last_ = false, in_order_ = false;
};

WARPWRIGHT_END
