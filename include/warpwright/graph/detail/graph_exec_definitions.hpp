// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/graph/detail/nodes/graph_structure.hpp>
#include <warpwright/graph/graph_exec.hpp>

WARPWRIGHT_BEGIN

WARPWRIGHT_INLINE char const* graph_update::reason_text() const noexcept {
  constexpr char const* texts[] = {
      "updated in place",
      "CUDA does not say why",
      "the number of nodes or their dependencies changed",
      "a node became one of another type",
      "a kernel was replaced by one that the driver cannot exchange",
      "a parameter changed that cannot be updated, such as the kind or the devices of a copy",
      "a node of a type that cannot be updated changed, such as a memory node",
      "a kernel was replaced by one of another context, or with other launch features",
      "a launch attribute of a kernel changed that cannot be updated"};
  static_assert(cudaGraphExecUpdateErrorTopologyChanged == 2 &&
                cudaGraphExecUpdateErrorAttributesChanged == 8);
  auto const index = static_cast<std::size_t>(reason);
  return texts[index < sizeof texts / sizeof texts[0] ? index
                                                      : 1];  // a later toolkit may have more
}

WARPWRIGHT_INLINE graph_flags graph_exec::checked(graph_flags flags, source_location where) {
  if ((flags & graph_flags::upload) != graph_flags::none) {
    detail::throw_invalid_argument(
        "graph_exec: graph_flags::upload needs a stream: use graph_exec{graph, stream, flags}",
        where);
  }
  return flags;
}

WARPWRIGHT_INLINE cudaGraphExec_t graph_exec::instantiate(graph const& source, graph_flags flags,
                                                          source_location where) {
  detail::relaxed_capture_mode const allowed{where};
  cudaGraphExec_t handle = nullptr;
  check(cudaGraphInstantiate(&handle, source.get(), static_cast<unsigned long long>(flags)),
        "cudaGraphInstantiate", where);
  return handle;
}

WARPWRIGHT_INLINE graph_exec::graph_exec(graph const& source, stream_ref upload_stream,
                                         graph_flags flags, source_location where)
    : flags_{checked(flags & ~graph_flags::upload, where)} {
  detail::relaxed_capture_mode const allowed{where};
  cudaGraphInstantiateParams parameters{};
  parameters.flags = static_cast<unsigned long long>(flags_ | graph_flags::upload);
  parameters.uploadStream = upload_stream.get();
  check(cudaGraphInstantiateWithParams(&handle_, source.get(), &parameters),
        "cudaGraphInstantiateWithParams", where);
}

WARPWRIGHT_INLINE void graph_exec::destroy(cudaGraphExec_t handle) noexcept {
  if (handle == nullptr) return;
  detail::relaxed_capture_mode const allowed;
  detail::discard(cudaGraphExecDestroy(handle));
}

WARPWRIGHT_INLINE graph_update graph_exec::update(graph const& source, source_location where) {
  graph_update outcome = try_update(source, where);
  if (outcome.result == graph_update_result::updated) return outcome;
  cudaGraphExec_t const replacement = instantiate(source, flags_, where);
  destroy(detail::exchange(handle_, replacement));
  outcome.result = graph_update_result::reinstantiated;
  return outcome;
}

WARPWRIGHT_INLINE graph_update graph_exec::try_update(graph const& source, source_location where) {
  cudaGraphExecUpdateResultInfo info{};
  cudaError_t const status = cudaGraphExecUpdate(handle_, source.get(), &info);
  graph_update outcome;
  if (status == cudaSuccess) return outcome;
  if (status != cudaErrorGraphExecUpdateFailure) check(status, "cudaGraphExecUpdate", where);
  static_cast<void>(cudaGetLastError());  // expected: the last error must not remain
  outcome.result = graph_update_result::refused;
  outcome.reason = info.result;
  outcome.node = info.errorNode;
  outcome.kernel = detail::kernel_name(info.errorNode);
  return outcome;
}

WARPWRIGHT_INLINE void graph_exec::throw_launch_error(cudaError_t status,
                                                      source_location where) const {
  char const* advice = nullptr;
  if (handle_ == nullptr) {
    advice = "the graph_exec is empty: it was default-constructed or moved from";
  } else if (status == cudaErrorInvalidValue) {
    advice =
        "if the graph allocates memory that it does not free, free it before the next launch, or "
        "instantiate with graph_flags::auto_free_on_launch";
  } else if (status == cudaErrorStreamCaptureUnsupported) {
    advice =
        "the stream is capturing, and CUDA cannot launch a graph into a capture: call the code "
        "that the graph was captured from instead";
  }
  detail::throw_cuda_error(status, "cudaGraphLaunch", where, advice);
}

WARPWRIGHT_END
