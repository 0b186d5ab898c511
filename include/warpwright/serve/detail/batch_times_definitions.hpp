// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/serve/detail/batch_times.hpp>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_INLINE unsigned batch_times::size_class(std::size_t size) noexcept {
  unsigned bits = 1;  // 0 stands for any size
  while (size > 1) {
    size = (size + 1) / 2;
    ++bits;
  }
  return bits;
}

WARPWRIGHT_INLINE std::uint64_t batch_times::name_of(std::uint64_t key,
                                                     unsigned size_class) noexcept {
  std::uint64_t const h = (key + size_class) * 0x9E3779B97F4A7C15U;
  return (h ^ (h >> 29U)) | 1U;  // 0: an entry that is free
}

WARPWRIGHT_INLINE batch_times::entry const* batch_times::find(std::uint64_t name) const noexcept {
  entry const& e = table_[(name >> 1U) % entries];
  return e.name == name ? &e : nullptr;
}

// Of this key and size, else of the key, else of the size, else of all.
WARPWRIGHT_INLINE double batch_times::ratio(std::uint64_t key, std::size_t size) const noexcept {
  unsigned const of_size = size_class(size);
  entry const* e = find(name_of(key, of_size));
  if (e == nullptr) e = find(name_of(key, 0));
  if (e == nullptr) e = find(name_of(any_key, of_size));
  if (e == nullptr) e = find(name_of(any_key, 0));
  return e == nullptr ? 1.0 : static_cast<double>(e->ratio);
}

WARPWRIGHT_INLINE double batch_times::upper(std::uint64_t key, std::size_t size,
                                            bool beside) const noexcept {
  double spread = spread_;
  if (seen_ < 16) {
    double const prior = model_.upper(size) / model_.median(size);
    if (prior > spread) spread = prior;
  }
  return typical(key, size, beside) * spread * (1.0 + margin_);
}

WARPWRIGHT_INLINE void batch_times::learn(std::uint64_t name, double ratio) noexcept {
  entry& e = table_[(name >> 1U) % entries];
  if (e.name != name) e = entry{name, static_cast<float>(ratio), 0};
  double const old = static_cast<double>(e.ratio);
  // One stall must not count for many.
  if (e.count >= 4 && ratio > 2.0 * old) ratio = 2.0 * old;
  if (e.count < 16) ++e.count;
  e.ratio = static_cast<float>(old + (ratio - old) / e.count);
}

// The second largest of the recent ones, so that one stall does not count.
WARPWRIGHT_INLINE void batch_times::learn_spread(float above) noexcept {
  above_[seen_++ % recent] = above;
  unsigned const count = seen_ < recent ? seen_ : recent;
  float first = 1.0F;
  float second = 1.0F;
  for (unsigned i = 0; i < count; ++i) {
    if (above_[i] > first) {
      second = first;
      first = above_[i];
    } else if (above_[i] > second) {
      second = above_[i];
    }
  }
  // Of few the largest, and more than it. What takes more than twice its time is a stall: to refuse
  // requests that one would make late loses more of them.
  spread_ = static_cast<double>(count < 32 ? first : second) * (1.0 + 0.5 / count);
  if (spread_ > 2.0) spread_ = 2.0;
}

WARPWRIGHT_INLINE void batch_times::observe(std::uint64_t key, std::size_t size, double seconds,
                                            double shared) noexcept {
  double const expected = model_.median(size);
  if (!(seconds > 0.0) || !(expected > 0.0)) return;
  unsigned const of_size = size_class(size);
  std::uint64_t const name = name_of(key, of_size);
  double const alone = typical(key, size);
  if (find(name) != nullptr) {
    learn_spread(static_cast<float>(seconds / (alone * (1.0 + shared * (slowdown_ - 1.0)))));
  }
  margin_ = margin_ > 0.02 ? margin_ * 0.999 : margin_;
  if (shared > 0.1 && find(name_of(any_key, 0)) != nullptr) {
    double slowdown = 1.0 + (seconds / alone - 1.0) / shared;
    if (slowdown < 1.0) slowdown = 1.0;
    if (slowdown > 8.0) slowdown = 8.0;
    slowdown_ += (slowdown - slowdown_) * shared / 16.0;
    return;
  }
  double const ratio = seconds / expected;
  learn(name, ratio);
  learn(name_of(key, 0), ratio);
  learn(name_of(any_key, of_size), ratio);
  learn(name_of(any_key, 0), ratio);
}

}  // namespace detail

WARPWRIGHT_END
