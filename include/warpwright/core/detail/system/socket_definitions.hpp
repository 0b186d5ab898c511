// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/system/socket.hpp>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

WARPWRIGHT_BEGIN_DEFINITIONS

namespace detail {

WARPWRIGHT_INLINE socket_handle::~socket_handle() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE bool message_reader::fill(int descriptor) {
  if (begin_ > 0) {
    data_.remove_front(begin_);
    begin_ = 0;
  }
  for (;;) {
    char chunk[16384];
    ssize_t const bytes = ::recv(descriptor, chunk, sizeof chunk, MSG_DONTWAIT);
    if (bytes == 0) return false;
    if (bytes < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN || errno == EWOULDBLOCK;
    }
    std::size_t const before = data_.size();
    data_.resize(before + static_cast<std::size_t>(bytes));
    std::memcpy(data_.begin() + before, chunk, static_cast<std::size_t>(bytes));
  }
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE bool message_reader::next(message_header& header,
                                                            char const*& payload) {
  std::size_t const have = data_.size() - begin_;
  if (broken_ || have < sizeof header) return false;
  std::memcpy(&header, data_.begin() + begin_, sizeof header);
  broken_ = (header.kind & 0xffff0000U) != message_magic || header.bytes > max_message_bytes;
  if (broken_ || have - sizeof header < header.bytes) return false;
  payload = data_.begin() + begin_ + sizeof header;
  begin_ += sizeof header + header.bytes;
  return true;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE bool wait_for_socket(int descriptor, bool to_write,
                                                       std::uint64_t until) noexcept {
  for (;;) {
    std::uint64_t const now = monotonic_nanoseconds();
    std::uint64_t const left = until > now ? (until - now) / 1000000U + 1 : 0;
    pollfd one{descriptor, static_cast<short>(to_write ? POLLOUT : POLLIN), 0};
    int const ready = ::poll(&one, 1, left > 3600000U ? 3600000 : static_cast<int>(left));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
    if (monotonic_nanoseconds() >= until) return false;
  }
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE bool send_message(int descriptor, message_header header,
                                                    void const* payload,
                                                    std::uint64_t until) noexcept {
  void const* const parts[] = {&header, payload};
  std::size_t const sizes[] = {sizeof header, header.bytes};
  for (int part = 0; part < 2; ++part) {
    for (std::size_t at = 0; at < sizes[part];) {
      ssize_t const bytes = ::send(descriptor, static_cast<char const*>(parts[part]) + at,
                                   sizes[part] - at, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (bytes > 0) {
        at += static_cast<std::size_t>(bytes);
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        if (!wait_for_socket(descriptor, true, until)) return false;
      } else if (errno != EINTR) {
        return false;
      }
    }
  }
  return true;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void close_when_read(socket_handle& socket,
                                                       std::uint64_t until) noexcept {
  char unread[4096];
  static_cast<void>(::shutdown(socket.get(), SHUT_WR));
  while (wait_for_socket(socket.get(), false, until)) {
    if (::recv(socket.get(), unread, sizeof unread, MSG_DONTWAIT) <= 0) break;
  }
  socket = socket_handle{};
}

/// The addresses of a host and a port, as getaddrinfo() has them.
class addresses {
 public:
  addresses(std::string const& host, int port, bool passive, text& problem) {
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = passive ? AI_PASSIVE : 0;
    char digits[16];
    static_cast<void>(std::snprintf(digits, sizeof digits, "%d", port));
    int const error = ::getaddrinfo(host.empty() ? nullptr : host.c_str(), digits, &hints, &list_);
    if (error != 0) {
      list_ = nullptr;
      problem = text{"the host name '"} + host.c_str() + "' has no address (" +
                ::gai_strerror(error) + ")";
    }
  }
  ~addresses() {
    if (list_ != nullptr) ::freeaddrinfo(list_);
  }
  addresses(addresses const&) = delete;
  addresses& operator=(addresses const&) = delete;
  [[nodiscard]] addrinfo const* first() const noexcept { return list_; }

 private:
  addrinfo* list_ = nullptr;
};

inline socket_handle new_socket(int family) noexcept {
  return socket_handle{::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
}

inline void set_option(int descriptor, int level, int option, int value) noexcept {
  static_cast<void>(::setsockopt(descriptor, level, option, &value, sizeof value));
}

inline int port_of(int descriptor) noexcept {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&bound), &size) != 0) return 0;
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                           : reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE socket_handle listen_on(std::string const& host, int& port,
                                                          int ports, text& problem) {
  int const last = port + ports - 1;
  for (int p = port; p <= last; ++p) {
    addresses const all{host, p, true, problem};
    if (all.first() == nullptr) return socket_handle{};
    // One of IPv6 serves IPv4 as well; a machine need not have both.
    for (int const family : {AF_INET6, AF_INET}) {
      for (addrinfo const* a = all.first(); a != nullptr; a = a->ai_next) {
        if (a->ai_family != family) continue;
        socket_handle listener = new_socket(family);
        problem = text{std::strerror(errno)};
        if (!listener.valid()) continue;
        if (family == AF_INET6) set_option(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
        // Without it a port cannot be used for a minute after a program that had connections.
        set_option(listener.get(), SOL_SOCKET, SO_REUSEADDR, 1);
        if (::bind(listener.get(), a->ai_addr, a->ai_addrlen) == 0 &&
            ::listen(listener.get(), 4096) == 0) {
          port = port_of(listener.get());
          return listener;
        }
        problem = text{std::strerror(errno)};
      }
    }
  }
  problem = text{"cannot listen on "} + (host.empty() ? "any address" : host.c_str()) +
            (port == 0 ? text{", any port"} : text{", port "} + port) +
            (ports > 1 ? text{" to "} + last : text{""}) + ": " + problem;
  return socket_handle{};
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE socket_handle connect_to(std::string const& host, int port,
                                                           std::uint64_t until, text& problem) {
  addresses const all{host, port, false, problem};
  for (addrinfo const* a = all.first(); a != nullptr; a = a->ai_next) {
    socket_handle made = new_socket(a->ai_family);
    if (!made.valid()) continue;
    std::uint64_t const soon = monotonic_after(1.0);  // another address may be better
    int error = ::connect(made.get(), a->ai_addr, a->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      error = ETIMEDOUT;
      socklen_t size = sizeof error;
      if (wait_for_socket(made.get(), true, soon < until ? soon : until)) {
        static_cast<void>(::getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &error, &size));
      }
    }
    // Where nobody listens on a port of this machine, TCP may connect a socket with itself.
    if (error == 0 && port_of(made.get()) == port) error = ECONNREFUSED;
    if (error == 0) {
      set_option(made.get(), IPPROTO_TCP, TCP_NODELAY, 1);
      return made;
    }
    problem = text{host.c_str()} + ":" + port + ": " + std::strerror(error);
  }
  return socket_handle{};
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::string host_name() {
  char name[64] = "";
  if (::gethostname(name, sizeof name - 1) != 0 || name[0] == 0) return "localhost";
  return name;
}

}  // namespace detail

WARPWRIGHT_END_DEFINITIONS
