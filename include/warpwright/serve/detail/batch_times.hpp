// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/tune/latency_model.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// The time of a batch on one device: a latency_model, corrected by what batches have taken.
///
/// A model is measured with nothing beside, and perhaps for another input; so ratios to its median
/// are learnt, by key and size, and how far above them batches have been.
class batch_times {
 public:
  explicit batch_times(latency_model const& model) : model_{model} {}

  /// @param key     hash of the requests' key
  /// @param size    of the batch, padded
  /// @param beside  whether another batch runs on the device
  /// @return seconds
  [[nodiscard]] double typical(std::uint64_t key, std::size_t size,
                               bool beside = false) const noexcept {
    return model_.median(size) * ratio(key, size) * (beside ? slowdown_ : 1.0);
  }
  /// @return seconds that most batches stay within
  [[nodiscard]] double upper(std::uint64_t key, std::size_t size, bool beside) const noexcept {
    double spread = spread_;
    if (seen_ < 16) {
      double const prior = model_.upper(size) / model_.median(size);
      if (prior > spread) spread = prior;
    }
    return typical(key, size, beside) * spread * (1.0 + margin_);
  }
  /// A batch has taken so long.
  /// @param shared  the share of that time in which another batch ran on the device
  void observe(std::uint64_t key, std::size_t size, double seconds, double shared) noexcept {
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
    for (std::uint64_t const of : {key, any_key}) {
      learn(name_of(of, of_size), seconds / expected);
      learn(name_of(of, 0), seconds / expected);
    }
  }
  /// @return how many times as long a batch takes beside another one
  [[nodiscard]] double slowdown() const noexcept { return slowdown_; }
  /// A request was late that upper() had said would not be.
  void missed() noexcept { margin_ = margin_ < 0.5 ? margin_ + 0.02 : margin_; }

 private:
  struct entry {
    std::uint64_t name = 0;
    float ratio = 1.0F;
    unsigned count = 0;
  };
  static constexpr std::size_t entries = 256;
  static constexpr std::uint64_t any_key = 0x5851F42D4C957F2DU;  // no key's hash but by chance
  static constexpr unsigned recent = 64;

  static unsigned size_class(std::size_t size) noexcept {
    unsigned bits = 1;  // 0 stands for any size
    for (; size > 1; size = (size + 1) / 2) ++bits;
    return bits;
  }
  static std::uint64_t name_of(std::uint64_t key, unsigned of_size) noexcept {
    std::uint64_t const h = (key + of_size) * 0x9E3779B97F4A7C15U;
    return (h ^ (h >> 29U)) | 1U;  // 0: an entry that is free
  }
  [[nodiscard]] entry const* find(std::uint64_t name) const noexcept {
    entry const& e = table_[(name >> 1U) % entries];
    return e.name == name ? &e : nullptr;
  }
  // Of this key and size, else of the key, else of the size, else of all.
  [[nodiscard]] double ratio(std::uint64_t key, std::size_t size) const noexcept {
    unsigned const of_size = size_class(size);
    for (std::uint64_t const of : {key, any_key}) {
      entry const* e = find(name_of(of, of_size));
      if (e == nullptr) e = find(name_of(of, 0));
      if (e != nullptr) return static_cast<double>(e->ratio);
    }
    return 1.0;
  }
  void learn(std::uint64_t name, double ratio) noexcept {
    entry& e = table_[(name >> 1U) % entries];
    if (e.name != name) e = entry{name, static_cast<float>(ratio), 0};
    double const old = static_cast<double>(e.ratio);
    // One stall must not count for many.
    if (e.count >= 4 && ratio > 2.0 * old) ratio = 2.0 * old;
    if (e.count < 16) ++e.count;
    e.ratio = static_cast<float>(old + (ratio - old) / e.count);
  }
  // The second largest of the recent ones, so that one stall does not count; of few the largest.
  void learn_spread(float above) noexcept {
    above_[seen_++ % recent] = above;
    unsigned const count = seen_ < recent ? seen_ : recent;
    float first = 1.0F;
    float second = 1.0F;
    for (unsigned i = 0; i < count; ++i) {
      float const a = above_[i];
      if (a > second) second = a < first ? a : first;
      if (a > first) first = a;
    }
    // What takes more than twice its time is a stall: to refuse requests that one would make late
    // loses more of them.
    spread_ = static_cast<double>(count < 32 ? first : second) * (1.0 + 0.5 / count);
    if (spread_ > 2.0) spread_ = 2.0;
  }

  latency_model model_;
  entry table_[entries];
  float above_[recent] = {};  // ratios of batches to what was typical
  unsigned seen_ = 0;
  double spread_ = 1.0;
  double margin_ = 0.02;
  double slowdown_ = 2.0;  // as if they ran in turn, until it is known
};

}  // namespace detail

WARPWRIGHT_END
