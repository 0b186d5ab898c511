// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/clock.hpp>
#include <warpwright/core/detail/options.hpp>
#include <warpwright/core/detail/thread/atomic.hpp>
#include <warpwright/memory/detail/adaptor.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// The values of memory_faults, which documents them.
struct fault_settings {
  [[nodiscard]] bool matches(std::uint64_t number, std::size_t bytes) const noexcept {
    return number == nth || (every != 0 && number % every == 0) || bytes >= from_bytes ||
           (probability > 0.0 && draw(seed, number) < probability);
  }
  // The number-th output of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
  // Generators, 2014) in [0, 1). Stateless, so that threads do not affect each other's numbers.
  static double draw(std::uint64_t of_seed, std::uint64_t number) noexcept {
    std::uint64_t z = of_seed + number * 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
    z ^= z >> 31U;
    return static_cast<double>(z >> 11U) * 0x1p-53;
  }

  std::uint64_t nth = 0;
  std::uint64_t every = 0;
  double probability = 0.0;
  std::uint64_t seed = 0;
  std::size_t from_bytes = ~std::size_t{0};
  double delay_seconds = 0.0;
  cudaError_t code = cudaSuccess;  // cudaSuccess: out of memory
};

}  // namespace detail

/// Which allocations a fault_adaptor fails, and how. Every setter returns a changed copy:
/// memory_faults{}.fail_nth(3).delay_seconds(50e-6). A request fails if any rule matches.
///
/// Requests are counted from 1; those of 0 bytes are not counted. For two rules of one kind, put
/// one fault_adaptor over another.
class memory_faults : public detail::options_base<memory_faults, detail::fault_settings> {
 public:
  /// Fails one request.
  /// @param n  its number, from 1; 0: none, the default
  constexpr self fail_nth(std::uint64_t n) const { return with(&values::nth, n); }
  /// Fails every n-th request.
  /// @param n  1: all; 0: none, the default
  constexpr self fail_every(std::uint64_t n) const { return with(&values::every, n); }
  /// Fails each request with a probability; the same seed fails the same requests.
  /// @param probability  in [0, 1]; default: 0
  /// @param seed         of the random numbers; print it
  /// @throws std::invalid_argument  for a probability outside of [0, 1]
  constexpr self fail_randomly(double probability, std::uint64_t seed,
                               source_location where = source_location::current()) const {
    if (!(probability >= 0.0 && probability <= 1.0)) {
      detail::throw_invalid_argument(
          detail::text{"memory_faults: a probability of "} + probability + " is not in [0, 1]",
          where);
    }
    return with(&values::probability, probability).with(&values::seed, seed);
  }
  /// Fails each request of this size or larger.
  /// @param n  default: no request
  constexpr self fail_from_bytes(std::size_t n) const { return with(&values::from_bytes, n); }
  /// Makes a failed request throw cuda_error, also from try_allocate(), instead of being out of
  /// memory.
  /// @param code  not cudaSuccess
  /// @throws std::invalid_argument  for cudaSuccess
  constexpr self error(cudaError_t code, source_location where = source_location::current()) const {
    if (code == cudaSuccess) {
      detail::throw_invalid_argument(
          "memory_faults: cudaSuccess is not an error; pass an error code", where);
    }
    return with(&values::code, code);
  }
  /// Makes every request sleep on the host first.
  /// @param seconds  default: 0
  constexpr self delay_seconds(double seconds) const {
    return with(&values::delay_seconds, seconds);
  }
};

/// Fails allocations by rules, to test how a program handles it. Deallocations never fail.
///
/// The out_of_memory of an injected fault reports a limit of 0 bytes; a cuda_error says that it was
/// injected.
/// @pre The upstream outlives the adaptor.
/// **Threads:** as many as the upstream allows. **Capture:** as the upstream.
/// **Cost:** one atomic addition an allocation, and the delay.
template <class Upstream>
class fault_adaptor : public detail::memory_adaptor<fault_adaptor<Upstream>, Upstream> {
 public:
  /// Creates the adaptor.
  /// @param upstream  where the memory comes from
  /// @param faults    the rules
  fault_adaptor(Upstream& upstream, memory_faults const& faults) noexcept
      : base{upstream}, faults_{values_of(faults)} {}

  /// @return the number of allocations, failed ones included
  [[nodiscard]] std::uint64_t requests() const noexcept {
    return requests_.load(detail::memory_order::relaxed);
  }
  /// @return the number of allocations that the rules failed
  [[nodiscard]] std::uint64_t injected() const noexcept {
    return injected_.load(detail::memory_order::relaxed);
  }

 private:
  using base = detail::memory_adaptor<fault_adaptor, Upstream>;
  friend class detail::memory_interface<fault_adaptor>;

  template <bool Throws>
  void* do_allocate(detail::memory_request const& request) {
    std::uint64_t const number = requests_.fetch_add(1, detail::memory_order::relaxed) + 1;
    if (faults_.delay_seconds > 0.0) {
      detail::sleep_nanoseconds(static_cast<std::uint64_t>(1e9 * faults_.delay_seconds));
    }
    if (faults_.matches(number, request.bytes)) {
      injected_.fetch_add(1, detail::memory_order::relaxed);
      if (Throws || faults_.code != cudaSuccess) fail(number, request);
      return nullptr;
    }
    return detail::allocate_from<Throws>(this->upstream(), request);
  }
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes, source_location where) {
    this->upstream().deallocate(stream, pointer, bytes, where);
  }
  [[noreturn]] WARPWRIGHT_COLD void fail(std::uint64_t number,
                                         detail::memory_request const& request) const {
    if (faults_.code != cudaSuccess) {
      detail::text const advice = detail::text{"injected by a fault_adaptor into request "} +
                                  number + ", of " + request.bytes + " bytes";
      throw cuda_error{faults_.code, "fault_adaptor", request.where,
                       detail::is_sticky(faults_.code), advice.c_str()};
    }
    memory_report report;
    report.requested_bytes = request.bytes;
    report.device = this->device().value();
    throw out_of_memory{report, request.where};
  }

  detail::fault_settings faults_;
  detail::atomic<std::uint64_t> requests_;
  detail::atomic<std::uint64_t> injected_;
};

WARPWRIGHT_END
