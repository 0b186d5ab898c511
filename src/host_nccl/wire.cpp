// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "wire.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <set>

namespace warpwright::host_nccl {
namespace {

// The sockets of this process. Never destroyed: threads may use them at exit.
struct open_sockets {
  std::mutex mutex;
  std::set<int> descriptors;
};

open_sockets& all_sockets() {
  static open_sockets* const sockets = [] {
    // A copy in a child would keep a connection open when this process has died.
    pthread_atfork([] { all_sockets().mutex.lock(); }, [] { all_sockets().mutex.unlock(); },
                   [] {
                     for (int const each : all_sockets().descriptors) ::close(each);
                     all_sockets().mutex.unlock();
                   });
    return new open_sockets;
  }();
  return *sockets;
}

bool send_all(int socket, void const* data, std::size_t bytes, int flags) {
  for (auto const* at = static_cast<char const*>(data); bytes > 0;) {
    ssize_t const sent = ::send(socket, at, bytes, MSG_NOSIGNAL | flags);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return false;
    at += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return true;
}

}  // namespace

std::string to_text(call_description const& call) {
  static constexpr char const* verbs[] = {
      "all_reduce", "reduce", "reduce_scatter", "all_gather", "broadcast", "send", "recv"};
  static constexpr char const* reductions[] = {" sum", " prod", " max", " min", " avg"};
  static constexpr char const* roots[] = {nullptr,       " to root ", nullptr,      nullptr,
                                          " from root ", " to rank ", " from rank "};
  auto const what = static_cast<std::size_t>(call.what);
  std::string text = verbs[what];
  text += " of " + std::to_string(call.count) + ' ' + name_of(call.type);
  if (call.what <= verb::reduce_scatter) text += reductions[call.reduction];
  return roots[what] == nullptr ? text : text + roots[what] + std::to_string(call.root);
}

int own_socket(int descriptor, char const* what) {
  if (descriptor >= 0 && descriptor <= 2) {  // the program would write to it
    int const low = descriptor;
    descriptor = ::fcntl(low, F_DUPFD_CLOEXEC, 3);
    ::close(low);
  }
  if (descriptor < 0)
    throw failure{ncclSystemError, std::string{what} + ": " + std::strerror(errno)};
  int const on = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  std::lock_guard<std::mutex> const lock(all_sockets().mutex);
  all_sockets().descriptors.insert(descriptor);
  return descriptor;
}

void close_socket(int descriptor) noexcept {
  if (descriptor < 0) return;
  std::lock_guard<std::mutex> const lock(all_sockets().mutex);
  all_sockets().descriptors.erase(descriptor);
  ::close(descriptor);
}

bool send_frame(int socket, frame const& head, void const* payload) {
  return send_all(socket, &head, sizeof head, head.bytes > 0 ? MSG_MORE : 0) &&
         send_all(socket, payload, head.bytes, 0);
}

bool receive_all(int socket, void* data, std::size_t bytes) {
  for (auto* at = static_cast<char*>(data); bytes > 0;) {
    ssize_t const got = ::recv(socket, at, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

std::thread start_thread(char const* name, std::function<void()> body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  try {
    thread = std::thread([name, body = std::move(body)] {
      pthread_setname_np(pthread_self(), name);
      body();
    });
  } catch (std::exception const&) {  // reported below
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!thread.joinable()) throw failure{ncclSystemError, "cannot start a thread: raise ulimit -u"};
  return thread;
}

}  // namespace warpwright::host_nccl
