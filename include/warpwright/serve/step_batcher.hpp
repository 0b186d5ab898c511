// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Which sequences take part in the next step of a sequence model, and with how many tokens each:
//
//   ww::step_batcher steps{ww::step_batcher_options{}.slots(64).budget(2048), model};
//   steps.add(id, prompt_tokens);
//   while (steps.next()) {
//     run(steps.parts(), steps.part_count());    // tokens [begin, begin + count) of each sequence
//     for (… part) if (part.generates && has_ended(part.id)) steps.finish(part.id);
//     steps.done(seconds);
//   }
#pragma once

#include <warpwright/core/detail/container/address_map.hpp>
#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/options.hpp>
#include <warpwright/core/error.hpp>
#include <warpwright/serve/detail/batch_times.hpp>
#include <warpwright/tune/latency_model.hpp>

#include <cstddef>
#include <cstdint>

#pragma push_macro( \
    "slots")  // of Qt, unless QT_NO_KEYWORDS is defined: also where slots() is called
#undef slots

WARPWRIGHT_BEGIN

namespace detail {
struct step_batcher_values {
  std::size_t slots = 64;
  std::size_t budget = 2048;
  std::size_t memory = ~std::size_t{0};
  std::size_t max_wait_steps = 16;
  std::size_t min_chunk = 16;
  double max_slowdown = 1.9;
};
}  // namespace detail

/// Options of a step_batcher. Every setter returns a changed copy.
class step_batcher_options
    : public detail::options_base<step_batcher_options, detail::step_batcher_values> {
 public:
  /// @param n  sequences that run at once, at least 1; default: 64
  constexpr self slots(std::size_t n) const { return with(&values::slots, n); }
  /// @param tokens  of a step at most, at least 1; default: 2,048
  constexpr self budget(std::size_t tokens) const { return with(&values::budget, tokens); }
  /// @param tokens  that the running sequences may have computed, together: what the memory for
  ///   their state holds; default: no limit. Beyond it sequences are preempted
  constexpr self memory(std::size_t tokens) const { return with(&values::memory, tokens); }
  /// @param factor  how much longer than without prompts a step may take, above 1; default: 1.9,
  ///   by which sequences that generate keep half of their rate beside any prompt
  constexpr self max_slowdown(double factor) const { return with(&values::max_slowdown, factor); }
  /// @param steps  after which a running sequence takes part in any case, at least 1; default: 16
  constexpr self max_wait_steps(std::size_t steps) const {
    return with(&values::max_wait_steps, steps);
  }
  /// @param tokens  that a prompt gets at least, where it gets any; default: 16
  constexpr self min_chunk(std::size_t tokens) const { return with(&values::min_chunk, tokens); }
};

/// A sequence's part of a step.
struct step_part {
  std::uint64_t id = 0;
  std::size_t slot = 0;    ///< below slots(), the same until the sequence ends or is preempted
  std::size_t begin = 0;   ///< the first of its tokens that is computed
  std::size_t count = 0;   ///< how many
  bool generates = false;  ///< they are its last ones: the step gives its next token
};

/// Plans the steps of a sequence model: continuous batching. Sequences that generate have a token
/// each in every step; prompts get what is left of the budget, in chunks that slow the step down by
/// max_slowdown() at most.
///
/// Where memory() does not suffice, the latest sequence of the lowest priority is preempted: see
/// preempted(). It waits again, and is computed again from its begin, with what it had generated;
/// one that alone is too long for memory() ends. So is one of a lower priority whose slot or memory
/// the first sequence that waits needs. A sequence with a slot, or for which one is free,
/// takes part at least every max_wait_steps() steps, or where more than the budget take part, in
/// turn.
///
/// **Threads:** one at a time. **Cost:** O(sequences) a step.
class step_batcher : detail::noncopyable {
 public:
  /// @param model  seconds of a step over its tokens; corrected by done()
  /// @throws std::invalid_argument  for an option out of range
  step_batcher(step_batcher_options const& options, latency_model const& model,
               source_location where = source_location::current());

  /// Takes a sequence.
  /// @param id      the caller's, of no sequence that is here
  /// @param tokens  of its prompt, at least 1
  /// @throws std::invalid_argument  for an id that is here, no tokens, or more than memory()
  void add(std::uint64_t id, std::size_t tokens, int priority = 0,
           source_location where = source_location::current());
  /// Plans a step, which must be done() before the next one.
  /// @return whether there is one; if not, no sequence is here
  bool next();
  [[nodiscard]] step_part const* parts() const noexcept { return parts_.begin(); }
  [[nodiscard]] std::size_t part_count() const noexcept { return parts_.size(); }
  /// The step has been run: what generates has a token more.
  /// @param seconds  that it took; 0: unknown
  void done(double seconds) noexcept;
  /// A sequence has ended, or is not wanted any more; legal in a step.
  /// @return whether it was here
  bool finish(std::uint64_t id) noexcept;
  /// The sequences whose state next() has given up: free it. finish() returns false for those that
  /// have ended.
  [[nodiscard]] detail::array<std::uint64_t> const& preempted() const noexcept {
    return preempted_;
  }

  [[nodiscard]] std::size_t running() const noexcept { return running_; }
  [[nodiscard]] std::size_t waiting() const noexcept { return order_.size() - running_; }
  /// @return tokens that the running sequences have computed
  [[nodiscard]] std::size_t resident_tokens() const noexcept { return resident_; }

 private:
  static constexpr std::size_t no_slot = ~std::size_t{0};
  static constexpr int max_priority = 0x7fffffff;
  struct sequence {
    std::uint64_t id = 0;
    int priority = 0;
    std::size_t tokens = 0;  // prompt and generated
    std::size_t computed = 0;
    std::size_t slot = no_slot;
    std::size_t waited = 0;  // steps without it in which it could have run
    bool planned = false;    // in this step
    [[nodiscard]] std::size_t left() const noexcept { return tokens - computed; }
    [[nodiscard]] bool runs() const noexcept { return slot != no_slot; }
    [[nodiscard]] bool generates() const noexcept { return runs() && computed != 0 && left() == 1; }
  };

  [[nodiscard]] std::size_t generating() const noexcept;
  [[nodiscard]] std::size_t prompt_budget(std::size_t generating) const noexcept;
  bool preempt_last(std::size_t behind, int below) noexcept;
  void take(sequence& s, std::size_t count) noexcept;
  void make_room_for_first() noexcept;
  bool take_prompt(std::size_t place, std::size_t& budget) noexcept;
  void remove(std::size_t place) noexcept;

  detail::step_batcher_values options_;
  detail::batch_times times_;
  detail::array<sequence> items_;
  detail::array<std::uint32_t> unused_;
  detail::array<std::uint32_t> order_;  // items by priority, then arrival
  detail::address_map names_;
  detail::array<std::size_t> free_slots_;
  detail::array<step_part> parts_;
  detail::array<std::uint64_t> preempted_;
  std::size_t resident_ = 0;
  std::size_t running_ = 0;
  std::size_t planned_ = 0;  // tokens of the step
  std::size_t turn_ = 0;     // who generates first, where the budget is short
};

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/serve/detail/step_batcher_definitions.hpp>
#endif
#pragma pop_macro("slots")
