// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// cuBLAS on the library's streams, also in captures. Without a workspace of its own cuBLAS
// allocates one for each stream and each captured graph, and that memory grows with the number of
// graphs.
//
//   ww::device_buffer<std::byte> workspace{pool, stream, ww::cublas_workspace_bytes(9)};  // kept
//   ww::graph const step = ww::capture(stream, [&](ww::stream_ref s) {
//     ww::cublas_scope const bound{handle, s, workspace.data(), workspace.size()};
//     cublasSgemm(handle, ...);
//   });
//
// Includes cublas_v2.h; the program links cuBLAS.
#pragma once

#if !__has_include(<cublas_v2.h>)
#error "warpwright: interop/cublas.hpp needs cuBLAS (cublas_v2.h) on the include path"
#endif

#include <cublas_v2.h>

#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/thread/locks.hpp>
#include <warpwright/core/stream.hpp>

#include <stdexcept>

WARPWRIGHT_BEGIN

/// A failed call of cuBLAS. what() has the form "file:line: cublasSetStream: status: remedy".
class cublas_error : public std::runtime_error {
 public:
  /// @param status  what the call returned
  /// @param api     the call's name, a string literal
  /// @param where   the caller's location
  /// @param advice  a remedy, appended to the text, or null
  cublas_error(cublasStatus_t status, char const* api, source_location where,
               char const* advice = nullptr)
      : std::runtime_error{message(status, api, where, advice).c_str()}, status_{status} {}
  /// @return the status
  [[nodiscard]] cublasStatus_t status() const noexcept { return status_; }

 private:
  static detail::text message(cublasStatus_t status, char const* api, source_location where,
                              char const* advice) {
    detail::text result = detail::text{where.file(), where.line()} + ": " + api + ": " +
                          cublasGetStatusString(status) + " (" + static_cast<int>(status) + ")";
    if (advice != nullptr) result += detail::text{": "} + advice;
    return result;
  }

  cublasStatus_t status_;
};

/// The size of workspace that NVIDIA recommends for a device (cuBLAS documentation,
/// cublasSetWorkspace).
/// @param compute_capability_major  of the device: 9 for Hopper
/// @return bytes
[[nodiscard]] constexpr std::size_t cublas_workspace_bytes(int compute_capability_major) noexcept {
  std::size_t const mebibyte = std::size_t{1} << 20U;
  if (compute_capability_major >= 12) return 12 * mebibyte;
  return compute_capability_major >= 9 ? 32 * mebibyte : 4 * mebibyte;
}

class cublas_scope;

namespace detail {

/// The scopes of all handles, the newest first: cuBLAS does not tell which workspace a handle has.
struct cublas_scope_list {
  spin_lock lock;
  cublas_scope* first = nullptr;
};
__attribute__((visibility("default"))) inline cublas_scope_list cublas_scopes;

}  // namespace detail

/// Binds a stream and a workspace to a cuBLAS handle for the lifetime of this object. At its end
/// the handle has its previous stream, and the workspace of the scope around this one, if that
/// bound the stream; otherwise cuBLAS's own, as cuBLAS does not tell which workspace it had before.
/// **Threads:** as the handle: one at a time.
class cublas_scope : detail::noncopyable {
 public:
  /// Binds the stream, then the workspace: the other way round cuBLAS would drop the workspace.
  /// @pre the handle outlives this object; nothing else binds a stream to it meanwhile
  /// @param handle     of the stream's device
  /// @param stream     capturing or not
  /// @param workspace  device memory, aligned to 256 bytes; it stays allocated until the stream has
  ///   completed the calls made meanwhile and, where these were captured, as long as the graph is
  ///   launched. Calls on two streams at a time need two workspaces
  /// @param bytes      its size; see cublas_workspace_bytes()
  /// @throws std::invalid_argument  for a null workspace
  /// @throws cublas_error           when a call fails; the handle then has its previous stream, and
  ///   the workspace that it has at the end of a scope
  /// **Stream:** does not block. **Capture:** legal. **Cost:** three calls of cuBLAS, and one or
  /// two at the end; no allocation.
  cublas_scope(cublasHandle_t handle, stream_ref stream, void* workspace, std::size_t bytes,
               source_location where = source_location::current())
      : handle_{handle}, stream_{stream.get()}, workspace_{workspace}, bytes_{bytes} {
    if (workspace == nullptr) {
      detail::throw_invalid_argument(
          "cublas_scope: the workspace is null, and cuBLAS would allocate one for each captured "
          "graph: pass device memory of cublas_workspace_bytes()",
          where);
    }
    check(cublasGetStream(handle, &previous_), "cublasGetStream", where, nullptr);
    check(cublasSetStream(handle, stream_), "cublasSetStream", where, nullptr);
    cublasStatus_t const status = cublasSetWorkspace(handle, workspace, bytes);
    if (status != CUBLAS_STATUS_SUCCESS) {
      restore();
      check(status, "cublasSetWorkspace", where,
            "the workspace must be device memory, aligned to 256 bytes");
    }
    detail::unique_lock<detail::spin_lock> const guard{detail::cublas_scopes.lock};
    next_ = detail::cublas_scopes.first;
    detail::cublas_scopes.first = this;
  }
  ~cublas_scope() {
    {
      detail::unique_lock<detail::spin_lock> const guard{detail::cublas_scopes.lock};
      cublas_scope** at = &detail::cublas_scopes.first;
      while (*at != this) at = &(*at)->next_;
      *at = next_;
    }
    restore();
  }

  /// @return the handle, for calls
  [[nodiscard]] cublasHandle_t handle() const noexcept { return handle_; }

 private:
  static void check(cublasStatus_t status, char const* api, source_location where,
                    char const* advice) {
    if (status != CUBLAS_STATUS_SUCCESS) throw cublas_error{status, api, where, advice};
  }

  // Setting the stream drops the workspace. @pre the scope is not in the list
  void restore() const noexcept {
    static_cast<void>(cublasSetStream(handle_, previous_));
    void* workspace = nullptr;
    std::size_t bytes = 0;
    {
      detail::unique_lock<detail::spin_lock> const guard{detail::cublas_scopes.lock};
      cublas_scope const* around = detail::cublas_scopes.first;
      while (around != nullptr && around->handle_ != handle_) around = around->next_;
      if (around == nullptr || around->stream_ != previous_) return;
      workspace = around->workspace_;
      bytes = around->bytes_;
    }
    static_cast<void>(cublasSetWorkspace(handle_, workspace, bytes));
  }

  cublasHandle_t handle_;
  cudaStream_t stream_;
  void* workspace_;
  std::size_t bytes_;
  cudaStream_t previous_ = nullptr;
  cublas_scope* next_ = nullptr;
};

WARPWRIGHT_END
