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
  [[nodiscard]] double upper(std::uint64_t key, std::size_t size, bool beside) const noexcept;
  /// A batch has taken so long.
  /// @param shared  the share of that time in which another batch ran on the device
  void observe(std::uint64_t key, std::size_t size, double seconds, double shared) noexcept;
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

  static unsigned size_class(std::size_t size) noexcept;
  static std::uint64_t name_of(std::uint64_t key, unsigned size_class) noexcept;
  [[nodiscard]] entry const* find(std::uint64_t name) const noexcept;
  [[nodiscard]] double ratio(std::uint64_t key, std::size_t size) const noexcept;
  void learn(std::uint64_t name, double ratio) noexcept;
  void learn_spread(float above) noexcept;

  latency_model model_;
  entry table_[entries];
  float above_[recent] = {};  // ratios of batches to what was typical
  unsigned seen_ = 0;
  double spread_ = 1.0;
  double margin_ = 0.02;
  double slowdown_ =
      2.0;  // of a batch beside another one: as if they ran in turn, until it is known
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/serve/detail/batch_times_definitions.hpp>
#endif
