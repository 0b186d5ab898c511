// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/scale/detail/communicator_core.hpp>

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/device/device_scope.hpp>
#include <warpwright/core/detail/system/file.hpp>

#include <cstdio>
#include <cstring>
#include <exception>

#include <pthread.h>

WARPWRIGHT_BEGIN_DEFINITIONS

namespace detail {

// Rank 0 listens, and says where: in the file, or by the user's broadcast.
WARPWRIGHT_COLD inline socket_handle open_store(store_place& place, source_location where) {
  bool const is_first = place.rank == 0 && !place.joins;
  socket_handle listener;
  if (is_first) {
    text problem = "";
    listener = listen_on(place.file.empty() && !place.broadcast ? place.host : "", place.port,
                         place.ports, problem);
    if (!listener.valid()) {
      throw_communicator_error(text{"rank 0 "} + problem + ". Is it another program's port?",
                               where);
    }
    // Where the launcher's port was taken the others try the next ones, as rank 0 has.
  }
  char address[128] = "";
  if (is_first) {
    static_cast<void>(
        std::snprintf(address, sizeof address, "%s %d\n", host_name().c_str(), place.port));
  }
  if (place.broadcast) {
    place.broadcast(address, sizeof address);
    char host[128] = "";
    if (std::sscanf(address, "%127s %d", host, &place.port) != 2) {
      throw_communicator_error("the broadcast has not brought rank 0's bytes to this rank", where);
    }
    place.host = host_name() == host ? "localhost" : host;
  } else if (!place.file.empty() && is_first) {
    int const error = write_file(place.file.c_str(), address, std::strlen(address));
    if (error != 0) {
      throw_communicator_error(
          text{"cannot write "} + place.file.c_str() + ": " + std::strerror(error), where);
    }
  }
  return listener;
}

WARPWRIGHT_COLD inline communicator_core::communicator_core(store_place const& asked,
                                                            communicator_values const& values,
                                                            source_location where)
    : values_{values},
      device_{current_device(where).value()},
      graphs_{new graph_count},
      ring_{ring_size} {
  store_place place{asked};
  try {
    if (!(values.deadline > 0.0 && values.deadline <= 1e6)) {
      throw_invalid_argument(text{"communicator_options: the deadline is "} + values.deadline +
                                 " s; above 0, and at most 1000000, is possible",
                             where);
    }
    socket_handle listener = open_store(place, where);
    if (listener.valid()) {
      server_ = new store_server{static_cast<socket_handle&&>(listener), place.ranks,
                                 nonce_of(place.nonce), values_.deadline, where};
      if (place.host.empty()) place.host = "localhost";
    }
    client_ = new store_client{place, values_.deadline, where};
    if (server_ != nullptr && !place.file.empty()) {
      static_cast<void>(std::remove(place.file.c_str()));  // a later run must not find it
    }
    client_->start(*this, where);
    init_nccl(where);
  } catch (...) {
    if (client_ != nullptr) client_->leave("has failed while its communicator was made");
    close_nccl();
    delete client_;
    delete server_;
    graphs_->release();
    throw;
  }
}

WARPWRIGHT_COLD inline communicator_core::~communicator_core() {
  delete client_;
  delete server_;
  graphs_->release();
}

WARPWRIGHT_COLD inline void communicator_core::retire(communicator_core* core,
                                                      bool by_exception) noexcept {
  if (core == nullptr || !core->process_.is_current()) return;  // a child of fork() has no threads
  core->set_hook(nullptr, source_location::current());
  core->client_->leave(by_exception ? "has ended its communicator by an exception" : nullptr);
  if (by_exception) core->lost_.store(true, memory_order::release);
  auto const has_graphs = [](communicator_core const* self) {
    return self->graphs_->graphs.load(memory_order::acquire) > 0;
  };
  auto const end = [](void* object) -> void* {
    auto* const self = static_cast<communicator_core*>(object);
    while (self->graphs_->graphs.load(memory_order::acquire) > 0) sleep_nanoseconds(milliseconds);
    device_scope const device{self->device_};
    self->close_nccl();
    delete self;
    return nullptr;
  };
  // NCCL destroys no communicator whose collectives are in graphs: it would wait for them. CUDA
  // tells of destroyed graphs a little later.
  for (int i = 0; i < 100 && has_graphs(core); ++i) sleep_nanoseconds(milliseconds);
  pthread_t thread{};
  if (!has_graphs(core)) {
    end(core);
  } else if (pthread_create(&thread, nullptr, end, core) == 0) {
    pthread_detach(thread);
  }  // without a thread it stays, which is better than a wait for ever
}

WARPWRIGHT_COLD inline void communicator_core::init_nccl(source_location where) {
  ncclUniqueId id{};
  if (rank() == 0) {
    ncclResult_t const result = ncclGetUniqueId(&id);
    if (result != ncclSuccess) settle(result, "ncclGetUniqueId", where);
  }
  array<char> all;
  exchange("the start of NCCL", &id, sizeof id, all, where);
  std::memcpy(&id, all.begin(), sizeof id);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.splitShare = 1;
  scoped_device const device{device_id{device_}, where};
  ncclResult_t result;
  {
    unique_lock<mutex> const lock{guard_mutex_};
    result = ncclCommInitRankConfig(&guard_, ranks(), id, rank(), &config);
  }
  settle(result, "ncclCommInitRankConfig", where);
  config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  {
    unique_lock<mutex> const lock{guard_mutex_};
    if (guard_ != nullptr) result = ncclCommSplit(guard_, 0, rank(), &split_, &config);
  }
  try {  // It returns ncclSuccess while it is in progress, too.
    settle(result == ncclSuccess ? ncclInProgress : result, "ncclCommSplit", where);
  } catch (...) {
    abort_nccl();
    if (split_ != nullptr) static_cast<void>(ncclCommAbort(detail::exchange(split_, nullptr)));
    throw;
  }
  unique_lock<mutex> const lock{calls_};
  comm_ = detail::exchange(split_, nullptr);
}

WARPWRIGHT_COLD inline ncclResult_t communicator_core::wait_for_guard() noexcept {
  std::uint64_t const until = monotonic_after(values_.deadline);
  for (std::uint64_t pause = 1000;; pause = pause < milliseconds ? pause * 2 : pause) {
    ncclResult_t result = ncclInProgress;
    {
      unique_lock<mutex> const lock{guard_mutex_};
      if (guard_ == nullptr) return ncclRemoteError;  // aborted
      ncclResult_t const asked = ncclCommGetAsyncError(guard_, &result);
      if (asked != ncclSuccess) result = asked;
    }
    if (result != ncclInProgress || is_lost() || monotonic_nanoseconds() >= until) return result;
    sleep_nanoseconds(pause);
  }
}

WARPWRIGHT_COLD inline void communicator_core::settle(ncclResult_t result, char const* name,
                                                      source_location where) {
  if (result == ncclInProgress) result = wait_for_guard();
  // Where another rank has ended NCCL may know it before the store, which knows which.
  bool const by_other = result == ncclRemoteError || result == ncclSystemError;
  for (int i = 0; i < 200 && by_other && !is_lost(); ++i) sleep_nanoseconds(10 * milliseconds);
  if (is_lost()) throw_lost(where);
  if (result == ncclSuccess) return;
  text problem = text{name} + ": ";
  if (result == ncclInProgress) {
    problem += text{"has not ended within "} + values_.deadline + " s";
  } else {
    problem += text{ncclGetErrorString(result)} + ": " + ncclGetLastError(nullptr);
  }
  client_->fail(text{"has failed in "} + problem);
  text const all = text{where.file(), where.line()} + ": rank " + rank() + ": " + problem;
  if (result == ncclRemoteError) throw rank_lost{all.c_str(), {}};
  throw communicator_error{all.c_str()};
}

WARPWRIGHT_COLD inline void communicator_core::close_nccl() noexcept {
  closes_.store(true, memory_order::release);  // tick() ends it by the deadline
  {
    unique_lock<mutex> const lock{calls_};
    if (comm_ != nullptr && !is_lost() && ncclCommFinalize(comm_) == ncclSuccess && !is_lost()) {
      static_cast<void>(ncclCommDestroy(detail::exchange(comm_, nullptr)));
    }
  }
  closes_.store(false, memory_order::release);
  abort_nccl();  // what is left
}

WARPWRIGHT_COLD inline void communicator_core::abort_nccl() noexcept {
  device_scope const device{device_};
  relaxed_capture_mode const relaxed;
  ncclComm_t guard = nullptr;
  {
    unique_lock<mutex> const lock{guard_mutex_};
    guard = detail::exchange(guard_, nullptr);
  }
  if (guard != nullptr)
    static_cast<void>(ncclCommAbort(guard));  // and what the other one waits for
  ncclComm_t comm = nullptr;
  {
    unique_lock<mutex> const lock{calls_};
    comm = detail::exchange(comm_, nullptr);
  }
  // Without the lock: NCCL waits here until graphs with its collectives are gone.
  if (comm != nullptr) static_cast<void>(ncclCommAbort(comm));
}

WARPWRIGHT_COLD inline void communicator_core::throw_lost(source_location where) {
  unique_lock<mutex> lock{report_mutex_};
  text const report = text{where.file(), where.line()} + ": " +
                      (report_.empty() ? text{"the communicator has been aborted"} : report_);
  std::vector<int> ranks{lost_ranks_};
  lock.unlock();
  throw rank_lost{report.c_str(), static_cast<std::vector<int>&&>(ranks)};
}

inline void communicator_core::run(stream_ref stream, collective_call about,
                                   function_ref<nccl_call> call, char const* name,
                                   source_location where) {
  if (values_.checked) check_same(about, where);
  bool const counts = about.operation < collective::send;
  bool watched = false;
  ncclResult_t result;
  {
    unique_lock<mutex> const lock{calls_};
    if (is_lost() || comm_ == nullptr) throw_lost(where);
    bool const captures = is_capturing(stream, where);
    if (captures) {
      retain_graph(stream, where);
      if (hook_ != nullptr) hook_->calls(stream, where);
    }
    about.captured = captures ? 1 : 0;
    {
      unique_lock<spin_lock> const ring_lock{ring_lock_};
      std::uint64_t const number = called_.load(memory_order::relaxed) + (counts ? 1 : 0);
      about.number = number;
      if (counts) ring_[number % ring_size] = about;
      called_.store(number, memory_order::release);
    }
    // A send or a receive has the number of the collective before it, which has not to end for it.
    in_call_.store(about.number + (counts ? 1 : 2), memory_order::release);
    result = call(comm_, stream.get());
    in_call_.store(0, memory_order::release);
    watched = hook_ != nullptr;
    if (watched && group_depth_ > 0) {
      pending_.push_back({stream, about});
      watched = false;
    }
  }
  if (result != ncclSuccess) settle(result, name, where);
  if (!watched) return;
  unique_lock<mutex> const lock{calls_};
  if (hook_ != nullptr) hook_->called(stream, about, where);
}

WARPWRIGHT_COLD inline void communicator_core::group(function_ref<void()> calls,
                                                     source_location where) {
  {
    unique_lock<mutex> const lock{calls_};
    if (is_lost() || comm_ == nullptr) throw_lost(where);
    static_cast<void>(ncclGroupStart());
    ++group_depth_;
  }
  std::exception_ptr failure;
  try {
    calls();
  } catch (...) {
    failure = std::current_exception();
    // Before its end, which calls those of the group that came before, and may wait for others.
    client_->fail("has left a group of collectives by an exception");
  }
  ncclResult_t result;
  {
    unique_lock<mutex> const lock{calls_};
    in_call_.store(called() + 1, memory_order::release);
    result = ncclGroupEnd();
    in_call_.store(0, memory_order::release);
    --group_depth_;
  }
  if (failure != nullptr) {
    pending_.clear();
    std::rethrow_exception(failure);
  }
  if (result != ncclSuccess) settle(result, "ncclGroupEnd", where);
  unique_lock<mutex> const lock{calls_};
  if (group_depth_ != 0) return;
  for (pending_call const& p : pending_) {
    if (hook_ != nullptr) hook_->called(p.stream, p.call, where);
  }
  pending_.clear();
}

// Makes the graph that is being captured tell when it is destroyed.
WARPWRIGHT_COLD inline void communicator_core::retain_graph(stream_ref stream,
                                                            source_location where) {
  capture_info const info = get_capture_info(stream, where);
  if (info.status != cudaStreamCaptureStatusActive || info.id == last_capture_) return;
  cudaUserObject_t object = nullptr;
  warpwright::check(cudaUserObjectCreate(&object, graphs_, &graph_count::on_destroyed, 1,
                                         cudaUserObjectNoDestructorSync),
                    "cudaUserObjectCreate", where);
  static_cast<void>(graphs_->owners.fetch_add(1, memory_order::acq_rel));
  static_cast<void>(graphs_->graphs.fetch_add(1, memory_order::acq_rel));
  cudaError_t const result =
      cudaGraphRetainUserObject(info.graph, object, 1, cudaGraphUserObjectMove);
  if (result != cudaSuccess) discard(cudaUserObjectRelease(object, 1));
  warpwright::check(result, "cudaGraphRetainUserObject", where);
  last_capture_ = info.id;
}

// All ranks say what they are about to call, before any of them calls it.
WARPWRIGHT_COLD inline void communicator_core::check_same(collective_call const& about,
                                                          source_location where) {
  if (about.operation >= collective::send) return;
  array<char> all;
  exchange("the check of a collective", &about, sizeof about, all, where);
  for (int r = 1; r < ranks(); ++r) {
    collective_call first;
    collective_call other;
    std::memcpy(&first, all.begin(), sizeof first);
    std::memcpy(&other, all.begin() + static_cast<std::size_t>(r) * sizeof other, sizeof other);
    if (same_call(first, other)) continue;
    first.number = other.number = called() + 1;
    text const problem = text{"rank "} + r + " calls " + call_text(other) + ", rank 0 " +
                         call_text(first) +
                         ": all ranks must call the same, of the same size and type";
    client_->fail(problem);
    throw rank_lost{(text{where.file(), where.line()} + ": " + problem).c_str(), {r}};
  }
}

WARPWRIGHT_COLD inline void communicator_core::exchange(char const* name, void const* mine,
                                                        std::size_t bytes, array<char>& all,
                                                        source_location where) {
  unique_lock<mutex> const lock{exchanges_};
  if (is_lost()) throw_lost(where);
  if (client_->exchange(name, mine, bytes, all, values_.deadline)) return;
  if (is_lost()) throw_lost(where);
  throw_communicator_error(text{name} + ": rank 0, which has the store, has ended", where);
}

WARPWRIGHT_COLD inline void communicator_core::check(source_location where) {
  if (is_lost()) throw_lost(where);
  ncclResult_t result = ncclSuccess;
  {
    unique_lock<mutex> const lock{calls_};
    if (comm_ == nullptr || ncclCommGetAsyncError(comm_, &result) != ncclSuccess) throw_lost(where);
  }
  settle(result, "NCCL", where);
}

WARPWRIGHT_COLD inline void communicator_core::regroup(source_location where) {
  // CUDA tells of destroyed graphs a little later.
  atomic<int>& graphs = graphs_->graphs;
  for (int i = 0; i < 100 && graphs.load(memory_order::acquire) > 0; ++i) {
    sleep_nanoseconds(milliseconds);
  }
  if (graphs.load(memory_order::acquire) > 0) {
    throw_communicator_error(
        text{"regroup: "} + graphs.load(memory_order::acquire) +
            " graphs have collectives of this communicator: destroy them first",
        where);
  }
  {
    device_scope const device{device_};
    is_lost() ? abort_nccl() : close_nccl();
  }
  if (!client_->regroup(values_.deadline)) {
    throw_communicator_error(
        "regroup: rank 0, which has the store, is lost, or this rank came too late: "
        "start all ranks again",
        where);
  }
  init_nccl(where);
}

// By the client's thread, before anything of the new group can be lost.
WARPWRIGHT_COLD inline void communicator_core::begin_group() noexcept {
  {
    unique_lock<mutex> const lock{report_mutex_};
    report_ = "";
    lost_ranks_.clear();
    if (hook_ != nullptr) hook_->begin_group();
  }
  {
    unique_lock<spin_lock> const lock{ring_lock_};
    for (collective_call& c : ring_) c = {};
    called_.store(0, memory_order::release);
  }
  left_at_.store(~std::uint64_t{0}, memory_order::release);
  told_.store(false, memory_order::release);
  static_cast<void>(epoch_.fetch_add(1, memory_order::acq_rel));
  lost_.store(false, memory_order::release);
}

WARPWRIGHT_COLD inline void communicator_core::set_hook(collective_hook* hook,
                                                        source_location where) {
  unique_lock<mutex> const lock{calls_};
  unique_lock<mutex> const report_lock{report_mutex_};
  if (hook != nullptr && hook_ != nullptr) {
    throw_invalid_argument("rank_watch: the communicator has one already; destroy that first",
                           where);
  }
  hook_ = hook;
}

WARPWRIGHT_COLD inline bool communicator_core::find_call(std::uint64_t number,
                                                         collective_call& call) noexcept {
  unique_lock<spin_lock> const lock{ring_lock_};
  call = ring_[number % ring_size];
  return number != 0 && call.number == number;
}

WARPWRIGHT_COLD inline void communicator_core::describe(rank_state& state) noexcept {
  state.called = called();
  state.completed = state.called;  // unless a rank_watch knows better
  {
    unique_lock<mutex> const lock{report_mutex_};
    if (hook_ != nullptr) hook_->describe(state);
  }
  std::uint64_t const in_call = in_call_.load(memory_order::acquire);
  if (in_call > 1 && state.completed > in_call - 2) state.completed = in_call - 2;
  if (!find_call(state.called, state.last)) state.last = {};
  if (!find_call(state.completed + 1, state.waits)) state.waits = {};
}

WARPWRIGHT_COLD inline void communicator_core::lost(char const* report, std::int32_t const* ranks,
                                                    std::size_t count) noexcept {
  try {
    unique_lock<mutex> const lock{report_mutex_};
    report_ = report;
    lost_ranks_.assign(ranks, ranks + count);
  } catch (...) {  // no memory: the text has them
  }
  lost_.store(true, memory_order::release);
}

WARPWRIGHT_COLD inline void communicator_core::left(std::uint64_t called) noexcept {
  if (called < left_at_.load(memory_order::relaxed)) left_at_.store(called, memory_order::release);
}

// NCCL connects ranks in their first calls, and waits for them.
WARPWRIGHT_COLD inline void communicator_core::check_hanging() noexcept {
  std::uint64_t const now = monotonic_nanoseconds();
  std::uint64_t const in_call = in_call_.load(memory_order::acquire);
  if (in_call != seen_in_call_ || in_call == 0) in_call_since_ = now;
  seen_in_call_ = in_call;
  auto const limit = static_cast<std::uint64_t>(values_.deadline * 1e9);
  if (now - in_call_since_ > limit && !told_.exchange(true, memory_order::acq_rel)) {
    client_->fail("a call of NCCL's has not returned within the deadline", true);
  }
  if (!closes_.load(memory_order::acquire)) {
    close_until_ = now + limit;
  } else if (now > close_until_ && guard_mutex_.try_lock()) {
    ncclComm_t const guard = detail::exchange(guard_, nullptr);
    guard_mutex_.unlock();
    if (guard != nullptr) static_cast<void>(ncclCommAbort(guard));
  }
}

WARPWRIGHT_COLD inline void communicator_core::tick() noexcept {
  // A collective that a rank which has ended does not take part in cannot end.
  if (called() > left_at_.load(memory_order::acquire) && !is_lost() &&
      !told_.exchange(true, memory_order::acq_rel)) {
    client_->fail("a rank has ended that others wait for", true);
  }
  if (calls_.try_lock()) {
    ncclResult_t result = ncclSuccess;
    bool const failed = comm_ != nullptr && !is_lost() &&
                        ncclCommGetAsyncError(comm_, &result) == ncclSuccess &&
                        result != ncclSuccess && result != ncclInProgress;
    text const problem =
        failed ? text{"NCCL: "} + ncclGetErrorString(result) + ": " + ncclGetLastError(comm_)
               : text{""};
    calls_.unlock();
    // Not of a rank that has ended, which the store reports.
    if (failed && result != ncclRemoteError && !told_.exchange(true, memory_order::acq_rel)) {
      client_->fail(problem, true);
    }
  }
  check_hanging();
  double seconds = 0.0;
  {
    unique_lock<mutex> const lock{report_mutex_};
    if (hook_ != nullptr) seconds = hook_->tick();
  }
  if (seconds > 0.0) {  // without the lock, as this may end the communicator
    client_->fail(text{"no collective has completed within "} + seconds + " s", true);
  }
}

}  // namespace detail

WARPWRIGHT_END_DEFINITIONS
