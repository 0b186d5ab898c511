// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/function_ref.hpp>
#include <warpwright/core/event.hpp>
#include <warpwright/memory/buffer.hpp>
#include <warpwright/scale/detail/communicator_core.hpp>

#include <cstring>

WARPWRIGHT_BEGIN

namespace detail {

/// @return n values of rank 0, of rank 1 and so on, by way of the hosts
template <class T>
array<T> values_of_ranks(communicator_core& comm, char const* name, T const* mine, std::size_t n,
                         source_location where) {
  array<char> bytes;
  comm.exchange(name, mine, n * sizeof(T), bytes, where);
  array<T> all{bytes.size() / sizeof(T)};
  if (!bytes.empty()) std::memcpy(all.begin(), bytes.begin(), bytes.size());
  return all;
}
WARPWRIGHT_COLD inline double largest_of_ranks(communicator_core& comm, char const* name,
                                               double mine, source_location where) {
  for (double const other : values_of_ranks(comm, name, &mine, 1, where)) {
    if (other > mine) mine = other;
  }
  return mine;
}

/// Device memory for one kind of collective: of ncclMemAlloc() and registered as a window where the
/// collective is faster so, which is measured; else of a pool.
class collective_memory : noncopyable {
 public:
  explicit collective_memory(communicator_core& comm) noexcept : comm_{comm} {}
  WARPWRIGHT_COLD ~collective_memory() {
    if (!has_window() || !comm_.is_in_own_process()) return;
    device_scope const device{comm_.device()};
    relaxed_capture_mode const relaxed;
    // Unlike cudaFree(), ncclMemFree() may not wait. On a full device the first one fails.
    if (wait_for_running_work() != cudaSuccess) discard(cudaDeviceSynchronize());
    forget();
  }

  /// Allocates and clears it. All ranks decide alike.
  /// @param call  enqueues the collective on `stream_of_call`, on memory of `bytes`
  WARPWRIGHT_COLD void allocate(memory_pool& pool, stream_ref stream, std::size_t bytes,
                                bool may_be_window, stream_ref stream_of_call,
                                function_ref<void(void*)> call, source_location where) {
    if (bytes == 0) return;
    if (may_be_window && comm_.ranks() > 1) try_window(bytes, stream_of_call, call, where);
    if (!has_window()) buffer_ = device_buffer<unsigned char>{pool, stream, bytes, where};
    warpwright::check(cudaMemsetAsync(data(), 0, bytes, stream.get()), "cudaMemsetAsync", where);
  }
  [[nodiscard]] unsigned char* data() const noexcept {
    return has_window() ? static_cast<unsigned char*>(window_memory_) : buffer_.data();
  }
  [[nodiscard]] bool has_window() const noexcept { return window_memory_ != nullptr; }

 private:
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
  // While an abort waits for graphs these may still use it: then it stays.
  void forget() noexcept {
    comm_.with_nccl([&](ncclComm_t nccl) {
      // An aborted communicator has ended its windows.
      if (window_ != nullptr && nccl != nullptr && epoch_ == comm_.epoch()) {
        static_cast<void>(ncclCommWindowDeregister(nccl, window_));
      }
      static_cast<void>(ncclMemFree(window_memory_));
    });
    window_memory_ = nullptr;
  }
  void try_window(std::size_t bytes, stream_ref stream, function_ref<void(void*)> call,
                  source_location where) {
    auto const all = [&](bool mine) {
      return largest_of_ranks(comm_, "the choice of memory", mine ? 0.0 : 1.0, where) <= 0.0;
    };
    auto const time = [&] {  // the best round on the slowest rank
      timed_event begin{where}, end{where};
      double best = 1e30;
      for (int round = 0; round < 6; ++round) {
        begin.record(stream.get(), where);
        for (int i = 0; i < 6; ++i) call(window_memory_);
        end.record(stream.get(), where);
        end.synchronize(where);
        comm_.check(where);
        double const ms = static_cast<double>(end.milliseconds_since(begin, where));
        if (round > 0 && ms < best) best = ms;  // NCCL connects the ranks in the first one
      }
      return largest_of_ranks(comm_, "the times of collectives", best, where);
    };
    int version = 0;
    if (ncclGetVersion(&version) != ncclSuccess || version < NCCL_VERSION(2, 27, 0)) return;
    scoped_device const device{device_id{comm_.device()}, where};
    constexpr std::size_t granule = NCCL_WIN_REQUIRED_ALIGNMENT;
    bytes = (bytes + granule - 1) / granule * granule;
    if (ncclMemAlloc(&window_memory_, bytes) != ncclSuccess) {
      window_memory_ = nullptr;
      static_cast<void>(cudaGetLastError());
    }
    if (all(has_window())) {
      warpwright::check(cudaMemsetAsync(window_memory_, 0, bytes, stream.get()), "cudaMemsetAsync",
                        where);
      double const plain = time();
      epoch_ = comm_.epoch();
      comm_.with_nccl([&](ncclComm_t nccl) {
        // Some systems have no such windows: there is none then, and no failure.
        if (nccl == nullptr || ncclCommWindowRegister(nccl, window_memory_, bytes, &window_,
                                                      NCCL_WIN_COLL_SYMMETRIC) != ncclSuccess) {
          window_ = nullptr;
        }
      });
      comm_.check(where);
      if (all(window_ != nullptr) && time() < 0.97 * plain) return;
    }
    forget();
  }

  ncclWindow_t window_ = nullptr;
  std::uint64_t epoch_ = 0;  // of the group that it is registered with
#else
  void forget() noexcept {}
  void try_window(std::size_t, stream_ref, function_ref<void(void*)>, source_location) {}
#endif
  communicator_core& comm_;
  device_buffer<unsigned char> buffer_;
  void* window_memory_ = nullptr;
};

}  // namespace detail

WARPWRIGHT_END
