// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// TCP: connections with deadlines, and messages over them between machines of one byte order.
#pragma once

#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/detail/exchange.hpp>
#include <warpwright/core/detail/text/text.hpp>
#include <warpwright/core/detail/thread/event_count.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

WARPWRIGHT_BEGIN

namespace detail {

/// A file descriptor, closed at the end.
class socket_handle {
 public:
  explicit socket_handle(int descriptor = -1) noexcept : descriptor_{descriptor} {}
  socket_handle(socket_handle&& other) noexcept : descriptor_{exchange(other.descriptor_, -1)} {}
  socket_handle& operator=(socket_handle&& other) noexcept {
    socket_handle moved{static_cast<socket_handle&&>(other)};
    swap(descriptor_, moved.descriptor_);
    return *this;
  }
  ~socket_handle();
  [[nodiscard]] int get() const noexcept { return descriptor_; }
  [[nodiscard]] bool valid() const noexcept { return descriptor_ >= 0; }

 private:
  int descriptor_;
};

/// A message: so many bytes behind this.
struct message_header {
  std::uint32_t kind;  // message_magic and a small number
  std::uint32_t bytes;
  std::uint64_t value;
};

inline constexpr std::uint32_t message_magic = 0x77770000U;
inline constexpr std::uint32_t max_message_bytes = 1U << 26U;

/// What has come over a connection so far.
class message_reader {
 public:
  /// Reads what is there, without blocking. @return false: the connection has ended
  [[nodiscard]] bool fill(int descriptor);
  /// Removes the first message. @return false: it is not whole yet
  /// @param payload  valid until the next call
  [[nodiscard]] bool next(message_header& header, char const*& payload);
  void clear() noexcept {
    data_.clear();
    begin_ = 0;
    broken_ = false;
  }
  /// @return whether what has come is no message
  [[nodiscard]] bool broken() const noexcept { return broken_; }

 private:
  array<char> data_;
  std::size_t begin_ = 0;
  bool broken_ = false;
};

/// Sends all of it. @param until  ns of CLOCK_MONOTONIC. @return false: it has not been sent
[[nodiscard]] bool send_message(int descriptor, message_header header, void const* payload,
                                std::uint64_t until) noexcept;

/// Waits until a descriptor can be read (or written). @return false: that time came first
[[nodiscard]] bool wait_for_socket(int descriptor, bool to_write, std::uint64_t until) noexcept;

/// Closes a connection when the other side has read all of it and closed, too: with unread bytes
/// here TCP would drop what the other side has not read yet.
void close_when_read(socket_handle& socket, std::uint64_t until) noexcept;

/// Listens on the first of `ports` ports from `port` on that is free; 0: any.
/// @param host  a name or an address of this machine; empty: all of them
/// @param port  in: the first one; out: that is listened on
/// @param problem  why there is none
[[nodiscard]] socket_handle listen_on(std::string const& host, int& port, int ports, text& problem);

/// @param problem  why there is no connection
[[nodiscard]] socket_handle connect_to(std::string const& host, int port, std::uint64_t until,
                                       text& problem);

/// @return this machine's name
[[nodiscard]] std::string host_name();

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/core/detail/system/socket_definitions.hpp>
#endif
