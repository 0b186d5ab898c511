// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <warpwright/core/detail/config.hpp>
#include <warpwright/core/detail/noncopyable.hpp>

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

/// The effect of a fault_plan's rule on the calls that match it.
enum class fault_effect {
  fail,    ///< the call has no effect and returns the rule's code
  poison,  ///< as fail; all later calls on the current device return the code too (a sticky error)
  delay,   ///< the call sleeps before it runs
};

/// One rule: the calls that match it, and its effect on them.
struct fault_rule {
  std::string call;  ///< "cudaMalloc", or "*" for any call
  fault_effect effect = fault_effect::fail;
  cudaError_t code = cudaErrorUnknown;  ///< returned by fail and poison
  std::uint64_t first = 1;   ///< first matching call, counted from 1 since the plan was installed
  std::uint64_t last = 1;    ///< last matching call
  double probability = 1.0;  ///< probability that a call in [first, last] matches, in [0, 1]
  std::uint64_t seed = 0;    ///< of the random numbers if probability is below 1
  std::chrono::microseconds duration{0};  ///< of delay
};

/// A list of faults to inject into runtime calls: a value, to which each member function adds a
/// rule in a changed copy. A scoped_fault_plan installs it.
///
/// Names are those of the CUDA runtime API; per-thread-default-stream variants count under the
/// plain name, as call_count() has them. A rule for a function that the host runtime does not have
/// throws std::invalid_argument with the nearest name.
///
/// **Threads:** a plan is a value; calls of all threads are matched against an installed plan.
class fault_plan {
 public:
  /// Makes the n-th call return `code` without any effect.
  ///
  /// @param call name of the function, or "*" to count the calls of all functions.
  /// @param nth number of the call, from 1.
  /// @param code the error to return; not cudaSuccess.
  /// @return a copy of the plan with the rule
  /// @throws std::invalid_argument when `nth` is 0, `call` is empty or `code` is cudaSuccess.
  [[nodiscard]] fault_plan fail(std::string call, std::uint64_t nth, cudaError_t code) const;

  /// Makes the n-th and all later calls return `code` without any effect.
  /// @return a copy of the plan with the rule
  /// @throws std::invalid_argument when `nth` is 0, `call` is empty or `code` is cudaSuccess.
  [[nodiscard]] fault_plan fail_from(std::string call, std::uint64_t nth, cudaError_t code) const;

  /// Makes each call return `code` with a probability; the same calls for the same seed.
  ///
  /// @param probability in [0, 1].
  /// @param seed of the random numbers.
  /// @return a copy of the plan with the rule
  /// @throws std::invalid_argument when `call` is empty, `code` is cudaSuccess or `probability` is
  ///   outside [0, 1].
  [[nodiscard]] fault_plan fail_randomly(std::string call, double probability, cudaError_t code,
                                         std::uint64_t seed) const;

  /// Makes the n-th call return `code` as a sticky error of the calling thread's current device:
  /// all later calls that need the device return `code` too, until reset_host_runtime().
  /// @return a copy of the plan with the rule
  /// @throws std::invalid_argument when `nth` is 0, `call` is empty or `code` is cudaSuccess.
  [[nodiscard]] fault_plan poison(std::string call, std::uint64_t nth, cudaError_t code) const;

  /// Makes each call sleep before it runs.
  ///
  /// @param duration in microseconds, not negative.
  /// @return a copy of the plan with the rule
  /// @throws std::invalid_argument when `duration` is negative or `call` is empty.
  [[nodiscard]] fault_plan delay(std::string call, std::chrono::microseconds duration) const;

  /// Makes the n-th call sleep before it runs.
  /// @return a copy of the plan with the rule
  /// @throws std::invalid_argument when `nth` is 0, `duration` is negative or `call` is empty.
  [[nodiscard]] fault_plan delay(std::string call, std::uint64_t nth,
                                 std::chrono::microseconds duration) const;

  /// Parses a plan: rules `call:n:code`, `call:n+:code` (the n-th and later calls),
  /// `call:p0.01@seed:code` (a probability), `call:n:poison=code`, `call:*:delay=microseconds`,
  /// separated by commas or semicolons. `code` is a name ("cudaErrorMemoryAllocation") or a number.
  /// @throws std::invalid_argument naming the rule that is malformed.
  [[nodiscard]] static fault_plan parse(std::string const& text);

  /// The rules, in the order they were added; the first rule that matches a call is applied.
  [[nodiscard]] std::vector<fault_rule> const& rules() const noexcept { return rules_; }

 private:
  [[nodiscard]] fault_plan with(fault_rule rule) const;

  std::vector<fault_rule> rules_;
};

/// Installs a fault_plan for a scope and for all threads of the process, and restores the previous
/// plan at the end of the scope. Calls are counted from the start of the scope.
///
/// **Threads:** install plans from one thread: scopes must nest and not overlap.
class scoped_fault_plan : detail::noncopyable {
 public:
  /// @param plan  copied
  explicit scoped_fault_plan(fault_plan const& plan);
  ~scoped_fault_plan();

  /// @return the number of calls that matched a rule so far
  std::uint64_t hits() const noexcept;

 private:
  void* installed_;  // the plan's state inside the runtime
};

#pragma GCC visibility pop

}  // namespace testing
WARPWRIGHT_END
