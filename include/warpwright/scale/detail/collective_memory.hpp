// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/device/device_scope.hpp>
#include <warpwright/core/detail/function_ref.hpp>
#include <warpwright/core/event.hpp>
#include <warpwright/memory/buffer.hpp>
#include <warpwright/scale/detail/communicator_core.hpp>

#include <cstring>

// ncclCommWindowRegister() is newer.
#define WARPWRIGHT_NCCL_WINDOWS (NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0))

WARPWRIGHT_BEGIN

namespace detail {

/// Device memory for one kind of collective: of ncclMemAlloc() and registered as a window where the
/// collective is faster so, which is measured; else of a pool.
class collective_memory : noncopyable {
 public:
  explicit collective_memory(communicator_core& comm) noexcept : comm_{comm} {}
  ~collective_memory() {
    if (window_memory_ == nullptr) return;
    device_scope const device{comm_.device()};
    comm_.with_nccl([&](ncclComm_t nccl) { forget(nccl); });
  }

  /// Decides. All ranks decide alike.
  /// @param call  enqueues the collective on memory of `bytes`
  /// @return whether the memory is there; else give it one by use()
  [[nodiscard]] bool try_window(std::size_t bytes, stream_ref stream,
                                function_ref<void(void*)> call, source_location where);
  void use(device_buffer<unsigned char>&& buffer) noexcept {
    buffer_ = static_cast<device_buffer<unsigned char>&&>(buffer);
  }
  [[nodiscard]] unsigned char* data() const noexcept {
    return window_memory_ != nullptr ? static_cast<unsigned char*>(window_memory_) : buffer_.data();
  }
  [[nodiscard]] bool has_window() const noexcept { return window_memory_ != nullptr; }

 private:
  void forget(ncclComm_t nccl) noexcept;
  [[nodiscard]] double time(stream_ref stream, function_ref<void(void*)> call,
                            source_location where);
  /// @return the largest value of the ranks
  [[nodiscard]] double most(double mine, source_location where);

  communicator_core& comm_;
  device_buffer<unsigned char> buffer_;
  void* window_memory_ = nullptr;
#if WARPWRIGHT_NCCL_WINDOWS
  ncclWindow_t window_ = nullptr;
  std::uint64_t epoch_ = 0;  // of the group that it is registered with
#endif
};

WARPWRIGHT_COLD inline void collective_memory::forget([[maybe_unused]] ncclComm_t nccl) noexcept {
#if WARPWRIGHT_NCCL_WINDOWS
  // An aborted communicator has ended its windows.
  if (window_ != nullptr && nccl != nullptr && epoch_ == comm_.epoch()) {
    static_cast<void>(ncclCommWindowDeregister(nccl, window_));
  }
  window_ = nullptr;
  static_cast<void>(ncclMemFree(detail::exchange(window_memory_, nullptr)));
#endif
}

WARPWRIGHT_COLD inline double collective_memory::most(double mine, source_location where) {
  array<char> all;
  comm_.exchange("the choice of memory", &mine, sizeof mine, all, where);
  for (int r = 0; r < comm_.ranks(); ++r) {
    double other = 0.0;
    std::memcpy(&other, all.begin() + static_cast<std::size_t>(r) * sizeof other, sizeof other);
    if (other > mine) mine = other;
  }
  return mine;
}

WARPWRIGHT_COLD inline double collective_memory::time(stream_ref stream,
                                                      function_ref<void(void*)> call,
                                                      source_location where) {
  double best = 1e30;
  for (int round = 0; round < 6; ++round) {
    timed_event begin{where};
    timed_event end{where};
    begin.record(stream.get(), where);
    for (int i = 0; i < 4; ++i) call(window_memory_);
    end.record(stream.get(), where);
    end.synchronize(where);
    comm_.check(where);
    double const ms = static_cast<double>(end.milliseconds_since(begin, where));
    if (round > 0 && ms < best) best = ms;  // NCCL connects the ranks in the first one
  }
  return most(best, where);
}

WARPWRIGHT_COLD inline bool collective_memory::try_window(
    [[maybe_unused]] std::size_t bytes, [[maybe_unused]] stream_ref stream,
    [[maybe_unused]] function_ref<void(void*)> call, [[maybe_unused]] source_location where) {
#if WARPWRIGHT_NCCL_WINDOWS
  int version = 0;
  static_cast<void>(ncclGetVersion(&version));
  if (comm_.ranks() == 1 || bytes == 0 || version < NCCL_VERSION(2, 27, 0)) return false;
  scoped_device const device{device_id{comm_.device()}, where};
  constexpr std::size_t granule = NCCL_WIN_REQUIRED_ALIGNMENT;
  std::size_t const whole = (bytes + granule - 1) / granule * granule;
  bool const failed = ncclMemAlloc(&window_memory_, whole) != ncclSuccess;
  if (failed) {
    window_memory_ = nullptr;
    static_cast<void>(cudaGetLastError());
  }
  if (most(failed ? 1.0 : 0.0, where) > 0.0) {
    forget(nullptr);
    return false;
  }
  warpwright::check(cudaMemsetAsync(window_memory_, 0, whole, stream.get()), "cudaMemsetAsync",
                    where);
  double const plain = time(stream, call, where);
  ncclResult_t registered = ncclInternalError;
  epoch_ = comm_.epoch();
  comm_.with_nccl([&](ncclComm_t nccl) {
    if (nccl == nullptr) return;
    registered =
        ncclCommWindowRegister(nccl, window_memory_, whole, &window_, NCCL_WIN_COLL_SYMMETRIC);
  });
  comm_.check(where);
  // Some systems have no such windows: there is none then, and no failure.
  bool const has = registered == ncclSuccess && window_ != nullptr;
  if (most(has ? 0.0 : 1.0, where) == 0.0 && time(stream, call, where) < 0.97 * plain) return true;
  comm_.with_nccl([&](ncclComm_t nccl) { forget(nccl); });
#endif
  return false;
}

}  // namespace detail

WARPWRIGHT_END
