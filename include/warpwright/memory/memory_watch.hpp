// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Warns of a scope that leaves more memory allocated than it found:
//
//   ww::tracking_adaptor<ww::memory_pool> memory{pool};
//   for (…) { ww::memory_watch watch{memory, 1 << 20, "step"}; step(memory); }
#pragma once

#include <warpwright/core/detail/text/figures.hpp>
#include <warpwright/memory/adaptors/tracking.hpp>

#include <cstdint>
#include <cstdio>
#include <string>

WARPWRIGHT_BEGIN

/// Compares the live memory of a tracking_adaptor at the end of a scope with that at its begin, and
/// reports a growth above a limit with the call sites that it comes from. What other threads
/// allocate meanwhile counts, too.
///
/// **Threads:** any; the scope belongs to one. **Capture:** legal. **Cost:** two sorts of the live
/// blocks, the second one only if there is a report.
template <class Upstream>
class memory_watch : detail::noncopyable {
 public:
  /// Called by the destructor, with to_text().
  using callback = void (*)(void* user, char const* report) noexcept;

  /// Begins the scope.
  /// @param memory            must outlive the scope
  /// @param max_growth_bytes  growth up to it is not reported
  /// @param name              of the scope, for the report; must outlive it
  /// @param report            null: the report is written to stderr
  /// @param user              passed to `report`
  /// @throws std::bad_alloc   when the host has no memory for the list of call sites
  memory_watch(tracking_adaptor<Upstream> const& memory, std::uint64_t max_growth_bytes,
               char const* name, callback report = nullptr, void* user = nullptr)
      : memory_{memory},
        before_bytes_{memory.outstanding_bytes()},
        max_growth_bytes_{max_growth_bytes},
        name_{name},
        report_{report},
        user_{user} {
    memory.for_each_site([this](allocation_site const& site) { before_.push_back(site); });
  }
  /// Reports if live memory has grown by more than the limit. Never throws.
  ~memory_watch() {
    if (grown_bytes() <= max_growth_bytes_) return;
    try {
      write(to_text().c_str());
    } catch (...) {
      write("memory_watch: live memory has grown, and the host has no memory for a report\n");
    }
  }

  /// @return by how much live memory has grown so far; 0 if it has shrunk
  [[nodiscard]] std::uint64_t grown_bytes() const noexcept {
    std::uint64_t const now = memory_.outstanding_bytes();
    return now > before_bytes_ ? now - before_bytes_ : 0;
  }
  /// @return the growth, and a line for each call site that has more live bytes than at the begin
  /// @throws std::bad_alloc  when the host has no memory for it
  [[nodiscard]] WARPWRIGHT_COLD std::string to_text() const {
    detail::string_builder text =
        detail::string_builder{"memory_watch: '"} + name_ + "': live memory grew by " +
        detail::format_bytes(static_cast<double>(grown_bytes())) + ", above " +
        detail::format_bytes(static_cast<double>(max_growth_bytes_)) +
        "; free it in the scope, or raise the limit\n";
    memory_.for_each_site([&](allocation_site const& site) {
      std::uint64_t bytes = 0;
      std::uint64_t blocks = 0;
      for (allocation_site const& was : before_) {
        if (was.where.line() != site.where.line()) continue;
        if (std::string{was.where.file()} != site.where.file()) continue;
        bytes = was.bytes;
        blocks = was.blocks;
      }
      if (site.bytes <= bytes) return;
      text += detail::string_builder{"  +"} + std::to_string(site.bytes - bytes) + " bytes (" +
              std::to_string(site.blocks) + " blocks, before " + std::to_string(blocks) +
              "), allocated at " + site.where.file() + ":" + site.where.line() + "\n";
    });
    return text;
  }

 private:
  void write(char const* text) const noexcept {
    report_ != nullptr ? report_(user_, text) : static_cast<void>(std::fputs(text, stderr));
  }

  tracking_adaptor<Upstream> const& memory_;
  detail::array<allocation_site> before_;
  std::uint64_t before_bytes_;
  std::uint64_t max_growth_bytes_;
  char const* name_;
  callback report_;
  void* user_;
};

WARPWRIGHT_END
