// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <warpwright/core/detail/config.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#if !WARPWRIGHT_HOST_RUNTIME
#error \
    "warpwright: a fault_plan drives the host runtime; link warpwright::host_runtime, which sets WARPWRIGHT_HOST_RUNTIME"
#endif

WARPWRIGHT_BEGIN
namespace testing {

#pragma GCC visibility push(default)

/// What one rule of a fault_plan does to the calls that it hits.
enum class fault_effect {
  fail,    ///< the call does nothing and answers the rule's code
  poison,  ///< as fail, and the current device answers that code from then on (a sticky error)
  delay,   ///< the call sleeps first, then does its work
};

/// One rule: which calls of which function it hits, and what happens to them.
struct fault_rule {
  std::string call;  ///< "cudaMalloc", or "*" for any call
  fault_effect effect = fault_effect::fail;
  cudaError_t code = cudaErrorUnknown;  ///< of fail and poison
  std::uint64_t first = 1;   ///< first call hit, counted from 1 since the plan was installed
  std::uint64_t last = 1;    ///< last call hit
  double probability = 1.0;  ///< chance of each call in [first, last] to be hit, in [0, 1]
  std::uint64_t seed = 0;    ///< of the draws when probability is below 1
  std::chrono::microseconds duration{0};  ///< of delay
};

/// A list of runtime calls that are to go wrong, made by chaining, put into effect by
/// scoped_fault_plan.
///
/// Names are those of the CUDA runtime API; the per-thread-default-stream variants count under the
/// plain name. A name that the host runtime does not implement is never hit.
///
/// **Threads:** a plan is a value; an installed one may be hit from any thread.
class fault_plan {
 public:
  /// Makes the n-th call answer `code` without doing anything.
  ///
  /// @param call name of the function, or "*" for the n-th call of any.
  /// @param nth which call, from 1.
  /// @param code what it answers; anything but cudaSuccess.
  /// @throws std::invalid_argument when `nth` is 0, `call` is empty or `code` is cudaSuccess.
  fault_plan& fail(std::string call, std::uint64_t nth, cudaError_t code);

  /// Makes every call from the n-th on answer `code` without doing anything.
  /// @throws std::invalid_argument as fail().
  fault_plan& fail_from(std::string call, std::uint64_t nth, cudaError_t code);

  /// Makes each call answer `code` with a given chance, the same calls for the same seed.
  ///
  /// @param probability in [0, 1].
  /// @param seed of the draws.
  /// @throws std::invalid_argument as fail(), and when `probability` is outside [0, 1].
  fault_plan& fail_randomly(std::string call, double probability, cudaError_t code,
                            std::uint64_t seed);

  /// Makes the n-th call answer `code` and poisons the calling thread's current device: every later
  /// call that needs the device answers `code` too, until reset_host_runtime().
  /// @throws std::invalid_argument as fail().
  fault_plan& poison(std::string call, std::uint64_t nth, cudaError_t code);

  /// Makes every call sleep before it does its work.
  ///
  /// @param duration in microseconds, not negative.
  /// @throws std::invalid_argument when `duration` is negative or `call` is empty.
  fault_plan& delay(std::string call, std::chrono::microseconds duration);

  /// Makes the n-th call alone sleep before it does its work.
  /// @throws std::invalid_argument as delay(), and when `nth` is 0.
  fault_plan& delay(std::string call, std::uint64_t nth, std::chrono::microseconds duration);

  /// Reads a plan from text: rules `call:n:code`, `call:n+:code` (from the n-th on),
  /// `call:p0.01@seed:code` (a chance), `call:n:poison=code`, `call:*:delay=microseconds`,
  /// separated by commas or semicolons. `code` is a name ("cudaErrorMemoryAllocation") or a number.
  /// @throws std::invalid_argument naming the rule that cannot be read.
  static fault_plan parse(std::string const& text);

  /// The rules, in the order they were added; of several that hit a call, the first decides.
  std::vector<fault_rule> const& rules() const noexcept { return rules_; }

 private:
  std::vector<fault_rule> rules_;
};

/// Puts a fault_plan into effect for a scope, for all threads of the process; the plan that was in
/// effect before comes back at the end. Calls are counted from the start of the scope.
///
/// **Threads:** scopes nest, they do not overlap: install plans from one thread.
class scoped_fault_plan {
 public:
  /// @param plan  is copied
  explicit scoped_fault_plan(fault_plan const& plan);
  ~scoped_fault_plan();
  scoped_fault_plan(scoped_fault_plan const&) = delete;
  scoped_fault_plan& operator=(scoped_fault_plan const&) = delete;

  /// How many calls the plan has hit so far.
  std::uint64_t hits() const noexcept;

 private:
  void* installed_;  // the plan's state inside the runtime
};

#pragma GCC visibility pop

}  // namespace testing
WARPWRIGHT_END
