// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Conditional nodes (CUDA Programming Guide, "Conditional Graph Nodes"), and cudaGraphAddNode().
#include <warpwright/core/detail/launch/host_launch.hpp>

#include <algorithm>

#include "graph.hpp"
#include "runtime.hpp"

namespace warpwright::host {
namespace {

// A handle belongs to the graph of the node, or to a graph around that.
std::shared_ptr<condition_state> find_condition(graph_state const& graph,
                                                cudaGraphConditionalHandle handle) {
  for (graph_state const* each = &graph; each != nullptr; each = each->parent) {
    for (auto const& condition : each->conditions) {
      if (condition->handle == handle) return condition;
    }
  }
  return nullptr;
}

bool valid_size(cudaConditionalNodeParams const& parameters) {
  switch (parameters.type) {
    case cudaGraphCondTypeIf:
      return parameters.size == 1 || parameters.size == 2;
    case cudaGraphCondTypeWhile:
      return parameters.size == 1;
    case cudaGraphCondTypeSwitch:
      return parameters.size >= 1;
  }
  return false;
}

cudaError_t add_conditional(runtime& rt, cudaGraphNode_t* made, graph_state& graph,
                            std::vector<graph_node*> const& depends_on,
                            cudaConditionalNodeParams& parameters) {
  auto const condition = find_condition(graph, parameters.handle);
  if (condition == nullptr || condition->used || !valid_size(parameters)) {
    return cudaErrorInvalidValue;
  }
  graph_node* const node = add_node(rt, graph, cudaGraphNodeTypeConditional, nullptr, depends_on);
  node->condition = condition;
  node->condition_type = parameters.type;
  for (unsigned i = 0; i < parameters.size; ++i) {
    std::shared_ptr<graph_state> body = make_graph(rt);
    body->owned_by_user = false;
    body->parent = &graph;
    node->body_handles.push_back(body->handle);
    node->bodies.push_back(std::move(body));
  }
  condition->used = true;
  parameters.phGraph_out = node->body_handles.data();
  *made = node->handle;
  return cudaSuccess;
}

bool zeros(cudaGraphNodeParams const& parameters) {
  return std::all_of(std::begin(parameters.reserved0), std::end(parameters.reserved0),
                     [](int value) { return value == 0; }) &&
         parameters.reserved2 == 0;
}

// All but conditional nodes: by the call of that type.
cudaError_t add_by_type(cudaGraphNode_t* node, cudaGraph_t graph,
                        cudaGraphNode_t const* dependencies, std::size_t count,
                        cudaGraphNodeParams& parameters) {
  switch (static_cast<int>(parameters.type)) {  // a later toolkit may have more
    case cudaGraphNodeTypeEmpty:
      return cudaGraphAddEmptyNode(node, graph, dependencies, count);
    case cudaGraphNodeTypeMemcpy:
      return cudaGraphAddMemcpyNode(node, graph, dependencies, count,
                                    &parameters.memcpy.copyParams);
    case cudaGraphNodeTypeMemset: {
      cudaMemsetParams fill = {};
      fill.dst = parameters.memset.dst;
      fill.pitch = parameters.memset.pitch;
      fill.value = parameters.memset.value;
      fill.elementSize = parameters.memset.elementSize;
      fill.width = parameters.memset.width;
      fill.height = parameters.memset.height;
      return cudaGraphAddMemsetNode(node, graph, dependencies, count, &fill);
    }
    case cudaGraphNodeTypeHost: {
      cudaHostNodeParams const call = {parameters.host.fn, parameters.host.userData};
      return cudaGraphAddHostNode(node, graph, dependencies, count, &call);
    }
    case cudaGraphNodeTypeGraph:
      if (parameters.graph.ownership != cudaGraphChildGraphOwnershipClone) {
        return cudaErrorNotSupported;
      }
      return cudaGraphAddChildGraphNode(node, graph, dependencies, count, parameters.graph.graph);
    case cudaGraphNodeTypeEventRecord:
      return cudaGraphAddEventRecordNode(node, graph, dependencies, count,
                                         parameters.eventRecord.event);
    case cudaGraphNodeTypeWaitEvent:
      return cudaGraphAddEventWaitNode(node, graph, dependencies, count,
                                       parameters.eventWait.event);
    case cudaGraphNodeTypeMemFree:
      return cudaGraphAddMemFreeNode(node, graph, dependencies, count, parameters.free.dptr);
    default:
      return cudaErrorNotSupported;
  }
}

}  // namespace
}  // namespace warpwright::host

using namespace warpwright::host;

WARPWRIGHT_API cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* handle,
                                                            cudaGraph_t graph_handle,
                                                            unsigned default_value,
                                                            unsigned flags) {
  static call_site site{"cudaGraphConditionalHandleCreate"};
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    auto const graph = rt.graphs.find(graph_handle);
    if (handle == nullptr || graph == nullptr ||
        (flags & ~unsigned{cudaGraphCondAssignDefault}) != 0) {
      return cudaErrorInvalidValue;
    }
    auto condition = std::make_shared<condition_state>();
    condition->handle = rt.next_condition++;
    condition->default_value = default_value;
    condition->assign_default = flags != 0;
    for (auto it = rt.conditions.begin(); it != rt.conditions.end();) {
      it = it->second.expired() ? rt.conditions.erase(it) : std::next(it);
    }
    rt.conditions.emplace(condition->handle, condition);
    *handle = condition->handle;
    graph->conditions.push_back(std::move(condition));
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph_handle,
                                            cudaGraphNode_t const* dependencies,
                                            cudaGraphEdgeData const* edges, size_t count,
                                            cudaGraphNodeParams* parameters) {
  static call_site site{"cudaGraphAddNode"};
  return api(site, needs::device, [&](runtime& rt) {
    if (parameters == nullptr || !zeros(*parameters)) return cudaErrorInvalidValue;
    if (!plain_edges(edges, count)) return cudaErrorNotSupported;
    if (parameters->type != cudaGraphNodeTypeConditional) {
      return add_by_type(node, graph_handle, dependencies, count, *parameters);
    }
    runtime_lock lock(rt.mutex);
    std::shared_ptr<graph_state> graph;
    std::vector<graph_node*> depends_on;
    if (cudaError_t const code =
            open_node(rt, node, graph_handle, dependencies, count, graph, depends_on)) {
      return code;
    }
    return add_conditional(rt, node, *graph, depends_on, parameters->conditional);
  });
}

WARPWRIGHT_API void warpwrightHostSetConditional(unsigned long long handle, unsigned value) {
  runtime& rt = the_runtime();
  runtime_lock lock(rt.mutex);
  auto const it = rt.conditions.find(handle);
  if (it == rt.conditions.end()) return;
  if (auto const condition = it->second.lock()) {
    condition->value.store(value, std::memory_order_relaxed);
  }
}
