// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Named ranges of a program, for a trace (observe/trace.hpp) and for tools that listen to NVTX:
//
//   ww::span forward{"forward", stream};   // until the end of the scope
#pragma once

#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/stream.hpp>
#include <warpwright/observe/detail/span_store.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

WARPWRIGHT_BEGIN

/// A named range of the calling thread's time, from its construction to the end of its scope.
///
/// It is recorded where a `trace` records, and is a range of NVTX where a tool listens (Nsight
/// Systems). Kernels and copies that the thread launches inside belong to it: a trace's tables and
/// its file name them by their innermost span, also those that a graph launched inside executes.
/// With a stream the file also shows a range on the GPU, from the start of the first of them to the
/// end of the last, on each stream that they ran on; no event is recorded for that. Spans nest.
///
/// A name is a text whose pointer is kept, so it must be a literal or live as long as the program;
/// or a std::string, which is copied (at most 255 bytes); or a callable that returns either, which
/// is called only where somebody listens, so that a name made at run time costs nothing otherwise:
///
///   ww::span step{[&] { return "batch " + std::to_string(i); }};
///
/// **Stream:** none; no CUDA call. **Threads:** any; a span ends on the thread that it began on.
/// **Capture:** legal; kernels of a graph belong to the span that launches it, not to the one that
/// captured it. **Cost:** one load if nobody listens, less than a nanosecond. Recorded: two clock
/// readings and 32 bytes of memory that the trace allocated before; no allocation and no lock.
class [[nodiscard]] span : detail::noncopyable {
 public:
  /// @param name  a literal, or a text that lives as long as the program
  explicit span(char const* name) noexcept : span{name, kind::host} {}
  /// @param name  copied where somebody listens
  explicit span(std::string const& name) noexcept : span{name, kind::host} {}
  /// @param stream  where the range's work goes, which gets a range on the GPU
  span(char const* name, stream_ref) noexcept : span{name, kind::on_stream} {}
  span(std::string const& name, stream_ref) noexcept : span{name, kind::on_stream} {}
  span(stream_ref, char const* name) noexcept : span{name, kind::on_stream} {}
  span(stream_ref, std::string const& name) noexcept : span{name, kind::on_stream} {}
  /// @param make_name  called at once, if somebody listens; returns a text or a std::string
  template <class F, class = std::enable_if_t<std::is_invocable<F const&>::value>>
  explicit span(F const& make_name) : span{make_name, kind::host, 0} {}
  template <class F, class = std::enable_if_t<std::is_invocable<F const&>::value>>
  span(stream_ref, F const& make_name) : span{make_name, kind::on_stream, 0} {}
  template <class F, class = std::enable_if_t<std::is_invocable<F const&>::value>>
  span(F const& make_name, stream_ref) : span{make_name, kind::on_stream, 0} {}
  // An array of the program may change before the trace is read: pass a std::string.
  explicit span(char* name) = delete;
  span(stream_ref, char* name) = delete;
  span(char* name, stream_ref) = delete;

  ~span() {
    if (listeners_ != 0) end();
  }

 private:
  enum class kind : bool { host, on_stream };

  span(char const* name, kind what) noexcept {
    if (detail::anybody_listens()) begin(name, what);
  }
  span(std::string const& name, kind what) noexcept {
    if (detail::anybody_listens()) begin_copied(name.c_str(), name.size(), what);
  }
  template <class F>
  span(F const& make_name, kind what, int) {
    if (!detail::anybody_listens()) return;
    auto const& name = make_name();
    using made = std::decay_t<decltype(name)>;
    if constexpr (std::is_convertible<made const&, char const*>::value) {
      begin(name, what);
    } else {
      begin_copied(name.c_str(), name.size(), what);
    }
  }

  void begin(char const* name, kind what) noexcept;
  void begin_copied(char const* name, std::size_t bytes, kind what) noexcept;
  void end() noexcept;

  std::uint32_t listeners_ = 0;  // that were told of its begin
  detail::open_span open_;
};

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/observe/detail/span_definitions.hpp>
#endif
