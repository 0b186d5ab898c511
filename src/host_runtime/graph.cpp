// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Graphs: construction, queries, copies.
#include "graph.hpp"

#include <algorithm>
#include <cstdio>

#include "copy.hpp"
#include "runtime.hpp"

namespace warpwright::host {
namespace {

using node_list = std::vector<graph_node*>;

void link(graph_node& from, graph_node& to) {
  to.depends_on.push_back(&from);
  from.dependents.push_back(&to);
}

void unlink(graph_node& from, graph_node& to) {
  auto const remove = [](node_list& list, graph_node* node) {
    list.erase(std::remove(list.begin(), list.end(), node), list.end());
  };
  remove(to.depends_on, &from);
  remove(from.dependents, &to);
}

// Adds a node, whose work describe(rt, work) -> error creates.
template <class Describe>
cudaError_t add(call_site& site, cudaGraphNode_t* made, cudaGraph_t graph_handle,
                cudaGraphNode_t const* dependencies, std::size_t count, cudaGraphNodeType type,
                Describe&& describe) {
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    std::shared_ptr<graph_state> graph;
    node_list depends_on;
    if (cudaError_t const code =
            open_node(rt, made, graph_handle, dependencies, count, graph, depends_on)) {
      return code;
    }
    graph_node description;
    if (cudaError_t const code = describe(rt, *graph, description)) return code;
    graph_node* node = add_node(rt, *graph, type, std::move(description.what), depends_on);
    node->child = std::move(description.child);
    node->event = std::move(description.event);
    node->event_handle = description.event_handle;
    node->memory = std::move(description.memory);
    node->alloc_params = description.alloc_params;
    node->freed_pointer = description.freed_pointer;
    *made = node->handle;
    return cudaSuccess;
  });
}

// Queries a node of one type.
template <class Read>
cudaError_t read(call_site& site, cudaGraphNode_t handle, cudaGraphNodeType type, bool has_output,
                 Read&& read_node) {
  return api(site, needs::device, [&](runtime& rt) {
    if (!has_output) return cudaErrorInvalidValue;
    runtime_lock lock(rt.mutex);
    auto const node = rt.nodes.find(handle);
    if (node == nullptr || node->type != type) return cudaErrorInvalidValue;
    return read_node(*node);
  });
}

std::shared_ptr<graph_state> clone(runtime& rt, graph_state const& original) {
  std::shared_ptr<graph_state> copy = make_graph(rt);
  copy->objects.add(original.objects);
  for (std::size_t i = 0; i < original.nodes.size(); ++i) original.nodes[i]->index = i;
  for (auto const& node : original.nodes) {
    graph_node* twin = add_node(rt, *copy, node->type, node->what, {});
    twin->child = node->child != nullptr ? clone(rt, *node->child) : nullptr;
    if (twin->child != nullptr) twin->child->owned_by_user = false;
    twin->event = node->event;
    twin->event_handle = node->event_handle;
    twin->cloned_from = node->handle;
  }
  // Sets the indices again: a child graph that holds the same nodes has overwritten them.
  for (std::size_t i = 0; i < original.nodes.size(); ++i) original.nodes[i]->index = i;
  for (std::size_t i = 0; i < original.nodes.size(); ++i) {
    for (graph_node const* from : original.nodes[i]->depends_on) {
      link(*copy->nodes[from->index], *copy->nodes[i]);
    }
  }
  return copy;
}

// Implements CUDA's queries that return an array or, for a null array, its size.
template <class Get>
void copy_to_array(std::size_t available, std::size_t* count, bool has_array, Get&& get) {
  if (!has_array) {
    *count = available;
    return;
  }
  std::size_t const filled = (std::min)(*count, available);
  for (std::size_t i = 0; i < filled; ++i) get(i, true);
  for (std::size_t i = filled; i < *count; ++i) get(i, false);
  *count = filled;
}

char const* type_name(cudaGraphNodeType type) {
  switch (static_cast<int>(type)) {
    case cudaGraphNodeTypeKernel:
      return "KERNEL";
    case cudaGraphNodeTypeMemcpy:
      return "MEMCPY";
    case cudaGraphNodeTypeMemset:
      return "MEMSET";
    case cudaGraphNodeTypeHost:
      return "HOST";
    case cudaGraphNodeTypeGraph:
      return "GRAPH";
    case cudaGraphNodeTypeEmpty:
      return "EMPTY";
    case cudaGraphNodeTypeWaitEvent:
      return "EVENT_WAIT";
    case cudaGraphNodeTypeEventRecord:
      return "EVENT_RECORD";
    case cudaGraphNodeTypeMemAlloc:
      return "MEM_ALLOC";
    case cudaGraphNodeTypeMemFree:
      return "MEM_FREE";
    case cudaGraphNodeTypeConditional:
      return "CONDITIONAL";
    default:
      return "NODE";
  }
}

cudaError_t list_adjacent_nodes(call_site& site, cudaGraphNode_t handle, cudaGraphNode_t* nodes,
                                cudaGraphEdgeData* edges, std::size_t* count,
                                node_list graph_node::*which) {
  return api(site, needs::device, [&](runtime& rt) {
    if (count == nullptr || (nodes == nullptr && edges != nullptr)) return cudaErrorInvalidValue;
    runtime_lock lock(rt.mutex);
    auto const node = rt.nodes.find(handle);
    if (node == nullptr) return cudaErrorInvalidValue;
    node_list const& list = (*node).*which;
    copy_to_array(list.size(), count, nodes != nullptr, [&](std::size_t i, bool there) {
      nodes[i] = there ? list[i]->handle : nullptr;
      if (edges != nullptr) edges[i] = {};
    });
    return cudaSuccess;
  });
}

cudaError_t change_edges(call_site& site, cudaGraph_t graph_handle, cudaGraphNode_t const* from,
                         cudaGraphNode_t const* to, std::size_t count, bool adding) {
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    auto const graph = rt.graphs.find(graph_handle);
    if (graph == nullptr || (count > 0 && (from == nullptr || to == nullptr))) {
      return cudaErrorInvalidValue;
    }
    if (!adding && graph->has_memory_nodes()) return cudaErrorNotSupported;
    for (std::size_t i = 0; i < count; ++i) {
      auto const a = rt.nodes.find(from[i]);
      auto const b = rt.nodes.find(to[i]);
      if (a == nullptr || b == nullptr || a == b || a->owner != graph.get() ||
          b->owner != graph.get() || contains(b->depends_on, a.get()) == adding) {
        return cudaErrorInvalidValue;
      }
      if (adding) {
        link(*a, *b);
      } else {
        unlink(*a, *b);
      }
    }
    return cudaSuccess;
  });
}

}  // namespace

cudaError_t open_node(runtime& rt, cudaGraphNode_t const* made, cudaGraph_t graph_handle,
                      cudaGraphNode_t const* dependencies, std::size_t count,
                      std::shared_ptr<graph_state>& graph, node_list& depends_on) {
  graph = rt.graphs.find(graph_handle);
  if (made == nullptr || graph == nullptr) return cudaErrorInvalidValue;
  if (count > 0 && dependencies == nullptr) return cudaErrorInvalidValue;
  for (std::size_t i = 0; i < count; ++i) {
    auto const node = rt.nodes.find(dependencies[i]);
    if (node == nullptr || node->owner != graph.get() || contains(depends_on, node.get())) {
      return cudaErrorInvalidValue;
    }
    depends_on.push_back(node.get());
  }
  return cudaSuccess;
}

bool graph_state::has_memory_nodes() const {
  return std::any_of(nodes.begin(), nodes.end(), [](auto const& node) {
    return node->type == cudaGraphNodeTypeMemAlloc || node->type == cudaGraphNodeTypeMemFree ||
           (node->child != nullptr && node->child->has_memory_nodes());
  });
}

bool graph_state::has_conditional_nodes() const {
  return std::any_of(nodes.begin(), nodes.end(),
                     [](auto const& node) { return node->type == cudaGraphNodeTypeConditional; });
}

std::shared_ptr<graph_state> make_graph(runtime& rt) {
  auto graph = std::make_shared<graph_state>();
  graph->handle = rt.graphs.add(graph);
  return graph;
}

graph_node* add_node(runtime& rt, graph_state& graph, cudaGraphNodeType type,
                     std::shared_ptr<work const> what, node_list const& depends_on) {
  auto node = std::make_shared<graph_node>();
  node->type = type;
  node->owner = &graph;
  node->what = std::move(what);
  node->handle = rt.nodes.add(node);
  graph.nodes.push_back(node);
  for (graph_node* from : depends_on) link(*from, *node);
  return node.get();
}

void drop_graph(runtime& rt, graph_state& graph) {
  for (auto const& node : graph.nodes) {
    if (node->child != nullptr) drop_graph(rt, *node->child);
    for (auto const& body : node->bodies) drop_graph(rt, *body);
    rt.nodes.remove(node->handle);
  }
  std::shared_ptr<graph_state> const last = rt.graphs.remove(graph.handle);
  graph.nodes.clear();
  graph.conditions.clear();
  graph.parent = nullptr;
  graph.objects.clear();
}

}  // namespace warpwright::host

using namespace warpwright::host;

WARPWRIGHT_API cudaError_t cudaGraphCreate(cudaGraph_t* handle, unsigned flags) {
  static call_site site{"cudaGraphCreate"};
  return api(site, needs::device, [&](runtime& rt) {
    if (handle == nullptr || flags != 0) return cudaErrorInvalidValue;
    runtime_lock lock(rt.mutex);
    *handle = make_graph(rt)->handle;
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaGraphDestroy(cudaGraph_t handle) {
  static call_site site{"cudaGraphDestroy"};
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    auto const graph = rt.graphs.find(handle);
    if (graph == nullptr || !graph->owned_by_user) return cudaErrorInvalidValue;
    for (auto const& session : rt.captures) {
      if (session->graph == graph) return cudaErrorInvalidValue;
    }
    drop_graph(rt, *graph);
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaGraphClone(cudaGraph_t* handle, cudaGraph_t original) {
  static call_site site{"cudaGraphClone"};
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    auto const graph = rt.graphs.find(original);
    if (handle == nullptr || graph == nullptr) return cudaErrorInvalidValue;
    if (graph->has_memory_nodes() || graph->has_conditional_nodes()) return cudaErrorNotSupported;
    *handle = clone(rt, *graph)->handle;
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t* found,
                                                    cudaGraphNode_t original, cudaGraph_t handle) {
  static call_site site{"cudaGraphNodeFindInClone"};
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    auto const graph = rt.graphs.find(handle);
    if (found == nullptr || graph == nullptr) return cudaErrorInvalidValue;
    for (auto const& node : graph->nodes) {
      if (node->cloned_from == original && original != nullptr) {
        *found = node->handle;
        return cudaSuccess;
      }
    }
    return cudaErrorInvalidValue;
  });
}

WARPWRIGHT_API cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                 cudaGraphNode_t const* dependencies,
                                                 size_t count) {
  static call_site site{"cudaGraphAddEmptyNode"};
  return add(site, node, graph, dependencies, count, cudaGraphNodeTypeEmpty,
             [](runtime&, graph_state&, graph_node&) { return cudaSuccess; });
}

WARPWRIGHT_API cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                  cudaGraphNode_t const* dependencies, size_t count,
                                                  cudaMemcpy3DParms const* parameters) {
  static call_site site{"cudaGraphAddMemcpyNode"};
  return add(site, node, graph, dependencies, count, cudaGraphNodeTypeMemcpy,
             [&](runtime& rt, graph_state&, graph_node& made) {
               if (parameters == nullptr) return cudaErrorInvalidValue;
               copy_shape shape;
               if (cudaError_t const code = shape_of(*parameters, shape)) return code;
               if (cudaError_t const code = check_copy(rt, shape)) return code;
               made.what = std::make_shared<copy_work>(shape);
               return cudaSuccess;
             });
}

WARPWRIGHT_API cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph,
                                                    cudaGraphNode_t const* dependencies,
                                                    size_t count, void* to, void const* from,
                                                    size_t bytes, cudaMemcpyKind kind) {
  static call_site site{"cudaGraphAddMemcpyNode1D"};
  return add(site, node, graph, dependencies, count, cudaGraphNodeTypeMemcpy,
             [&](runtime& rt, graph_state&, graph_node& made) {
               copy_shape shape;
               shape.to = static_cast<std::byte*>(to);
               shape.from = static_cast<std::byte const*>(from);
               shape.width = bytes;
               shape.kind = kind;
               if (cudaError_t const code = check_copy(rt, shape)) return code;
               made.what = std::make_shared<copy_work>(shape);
               return cudaSuccess;
             });
}

WARPWRIGHT_API cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                  cudaGraphNode_t const* dependencies, size_t count,
                                                  cudaMemsetParams const* parameters) {
  static call_site site{"cudaGraphAddMemsetNode"};
  return add(site, node, graph, dependencies, count, cudaGraphNodeTypeMemset,
             [&](runtime& rt, graph_state&, graph_node& made) {
               if (parameters == nullptr) return cudaErrorInvalidValue;
               fill_shape shape;
               if (cudaError_t const code = shape_of(*parameters, shape)) return code;
               if (shape.width == 0 || shape.height == 0) return cudaErrorInvalidValue;
               if (cudaError_t const code = check_fill(rt, shape)) return code;
               made.what = std::make_shared<fill_work>(shape);
               return cudaSuccess;
             });
}

WARPWRIGHT_API cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                cudaGraphNode_t const* dependencies, size_t count,
                                                cudaHostNodeParams const* parameters) {
  static call_site site{"cudaGraphAddHostNode"};
  return add(site, node, graph, dependencies, count, cudaGraphNodeTypeHost,
             [&](runtime&, graph_state&, graph_node& made) {
               if (parameters == nullptr || parameters->fn == nullptr) return cudaErrorInvalidValue;
               made.what = std::make_shared<host_work>(parameters->fn, parameters->userData);
               return cudaSuccess;
             });
}

WARPWRIGHT_API cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                      cudaGraphNode_t const* dependencies,
                                                      size_t count, cudaGraph_t child) {
  static call_site site{"cudaGraphAddChildGraphNode"};
  return add(site, node, graph, dependencies, count, cudaGraphNodeTypeGraph,
             [&](runtime& rt, graph_state& parent, graph_node& made) {
               auto const original = rt.graphs.find(child);
               if (original == nullptr || original.get() == &parent) return cudaErrorInvalidValue;
               if (original->has_memory_nodes() || original->has_conditional_nodes()) {
                 return cudaErrorNotSupported;
               }
               made.child = clone(rt, *original);
               made.child->owned_by_user = false;
               return cudaSuccess;
             });
}

WARPWRIGHT_API cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node,
                                                           cudaGraph_t* graph) {
  static call_site site{"cudaGraphChildGraphNodeGetGraph"};
  return read(site, node, cudaGraphNodeTypeGraph, graph != nullptr, [graph](graph_node const& n) {
    *graph = n.child->handle;
    return cudaSuccess;
  });
}

static cudaError_t add_event_node(call_site& site, cudaGraphNode_t* node, cudaGraph_t graph,
                                  cudaGraphNode_t const* dependencies, size_t count,
                                  cudaEvent_t event, cudaGraphNodeType type) {
  return add(site, node, graph, dependencies, count, type,
             [&](runtime& rt, graph_state&, graph_node& made) {
               made.event = rt.events.find(event);
               made.event_handle = event;
               return made.event != nullptr ? cudaSuccess : cudaErrorInvalidResourceHandle;
             });
}

WARPWRIGHT_API cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                       cudaGraphNode_t const* dependencies,
                                                       size_t count, cudaEvent_t event) {
  static call_site site{"cudaGraphAddEventRecordNode"};
  return add_event_node(site, node, graph, dependencies, count, event,
                        cudaGraphNodeTypeEventRecord);
}

WARPWRIGHT_API cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                     cudaGraphNode_t const* dependencies,
                                                     size_t count, cudaEvent_t event) {
  static call_site site{"cudaGraphAddEventWaitNode"};
  return add_event_node(site, node, graph, dependencies, count, event, cudaGraphNodeTypeWaitEvent);
}

WARPWRIGHT_API cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node,
                                                            cudaEvent_t* event) {
  static call_site site{"cudaGraphEventRecordNodeGetEvent"};
  return read(site, node, cudaGraphNodeTypeEventRecord, event != nullptr,
              [event](graph_node const& n) {
                *event = n.event_handle;
                return cudaSuccess;
              });
}

WARPWRIGHT_API cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node,
                                                          cudaEvent_t* event) {
  static call_site site{"cudaGraphEventWaitNodeGetEvent"};
  return read(site, node, cudaGraphNodeTypeWaitEvent, event != nullptr,
              [event](graph_node const& n) {
                *event = n.event_handle;
                return cudaSuccess;
              });
}

WARPWRIGHT_API cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                    cudaGraphNode_t const* dependencies,
                                                    size_t count,
                                                    cudaMemAllocNodeParams* parameters) {
  static call_site site{"cudaGraphAddMemAllocNode"};
  return add(site, node, graph, dependencies, count, cudaGraphNodeTypeMemAlloc,
             [&](runtime& rt, graph_state&, graph_node& made) {
               if (parameters == nullptr || parameters->bytesize == 0 ||
                   parameters->poolProps.allocType != cudaMemAllocationTypePinned ||
                   parameters->poolProps.handleTypes != cudaMemHandleTypeNone ||
                   parameters->poolProps.location.type != cudaMemLocationTypeDevice) {
                 return cudaErrorInvalidValue;
               }
               int const ordinal = parameters->poolProps.location.id;
               if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= rt.devices.size()) {
                 return cudaErrorInvalidDevice;
               }
               made.memory = make_graph_memory(rt, *rt.devices[static_cast<std::size_t>(ordinal)],
                                               parameters->bytesize);
               if (made.memory == nullptr) return cudaErrorMemoryAllocation;
               parameters->dptr = reinterpret_cast<void*>(made.memory->base);
               made.alloc_params = *parameters;
               made.alloc_params.accessDescs = nullptr;
               made.alloc_params.accessDescCount = 0;
               return cudaSuccess;
             });
}

WARPWRIGHT_API cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                   cudaGraphNode_t const* dependencies,
                                                   size_t count, void* pointer) {
  static call_site site{"cudaGraphAddMemFreeNode"};
  return add(site, node, graph, dependencies, count, cudaGraphNodeTypeMemFree,
             [&](runtime& rt, graph_state& parent, graph_node& made) {
               made.memory = find_graph_memory(rt, pointer);
               made.freed_pointer = pointer;
               if (made.memory == nullptr) return cudaErrorInvalidValue;
               for (auto const& other : parent.nodes) {
                 if (other->freed_pointer == pointer) return cudaErrorInvalidValue;
               }
               return cudaSuccess;
             });
}

WARPWRIGHT_API cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node,
                                                          cudaMemAllocNodeParams* parameters) {
  static call_site site{"cudaGraphMemAllocNodeGetParams"};
  return read(site, node, cudaGraphNodeTypeMemAlloc, parameters != nullptr,
              [parameters](graph_node const& n) {
                *parameters = n.alloc_params;
                return cudaSuccess;
              });
}

WARPWRIGHT_API cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void* pointer) {
  static call_site site{"cudaGraphMemFreeNodeGetParams"};
  return read(site, node, cudaGraphNodeTypeMemFree, pointer != nullptr,
              [pointer](graph_node const& n) {
                *static_cast<void**>(pointer) = n.freed_pointer;
                return cudaSuccess;
              });
}

WARPWRIGHT_API cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node,
                                                        cudaKernelNodeParams* parameters) {
  static call_site site{"cudaGraphKernelNodeGetParams"};
  return read(site, node, cudaGraphNodeTypeKernel, parameters != nullptr,
              [parameters](graph_node const& n) {
                auto const& kernel = static_cast<kernel_work const&>(*n.what);
                *parameters = {};
                parameters->func = const_cast<void*>(kernel.function());
                parameters->kernelParams = kernel.parameters();
                parameters->blockDim = dim3(kernel.kernel().threads, 1, 1);
                parameters->gridDim = dim3(static_cast<unsigned>(kernel.size()), 1, 1);
                parameters->sharedMemBytes = static_cast<unsigned>(kernel.kernel().shared_bytes);
                return cudaSuccess;
              });
}

WARPWRIGHT_API cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node,
                                                        cudaMemcpy3DParms* parameters) {
  static call_site site{"cudaGraphMemcpyNodeGetParams"};
  return read(site, node, cudaGraphNodeTypeMemcpy, parameters != nullptr,
              [parameters](graph_node const& n) {
                copy_shape const& shape = static_cast<copy_work const&>(*n.what).shape();
                *parameters = {};
                parameters->kind = shape.kind;
                parameters->extent = {shape.width, shape.height, shape.depth};
                auto const side = [&shape](std::byte const* at, std::size_t pitch,
                                           std::size_t slice) {
                  cudaPitchedPtr p = {};
                  p.ptr = const_cast<std::byte*>(at);
                  p.pitch = pitch != 0 ? pitch : shape.width;
                  p.xsize = shape.width;
                  p.ysize = pitch != 0 && slice != 0 ? slice / pitch : shape.height;
                  return p;
                };
                parameters->dstPtr = side(shape.to, shape.to_pitch, shape.to_slice);
                parameters->srcPtr = side(shape.from, shape.from_pitch, shape.from_slice);
                return cudaSuccess;
              });
}

WARPWRIGHT_API cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node,
                                                        cudaMemsetParams* parameters) {
  static call_site site{"cudaGraphMemsetNodeGetParams"};
  return read(site, node, cudaGraphNodeTypeMemset, parameters != nullptr,
              [parameters](graph_node const& n) {
                fill_shape const& shape = static_cast<fill_work const&>(*n.what).shape();
                *parameters = {};
                parameters->dst = shape.to;
                parameters->value = shape.value;
                parameters->elementSize = shape.element_bytes;
                parameters->width = shape.width;
                parameters->height = shape.height;
                parameters->pitch = shape.pitch;
                return cudaSuccess;
              });
}

WARPWRIGHT_API cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node,
                                                      cudaHostNodeParams* parameters) {
  static call_site site{"cudaGraphHostNodeGetParams"};
  return read(site, node, cudaGraphNodeTypeHost, parameters != nullptr,
              [parameters](graph_node const& n) {
                *parameters = static_cast<host_work const&>(*n.what).params();
                return cudaSuccess;
              });
}

WARPWRIGHT_API cudaError_t cudaGraphNodeGetType(cudaGraphNode_t handle, cudaGraphNodeType* type) {
  static call_site site{"cudaGraphNodeGetType"};
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    auto const node = rt.nodes.find(handle);
    if (type == nullptr || node == nullptr) return cudaErrorInvalidValue;
    *type = node->type;
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t* nodes,
                                             size_t* count) {
  static call_site site{"cudaGraphGetNodes"};
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    auto const graph = rt.graphs.find(handle);
    if (count == nullptr || graph == nullptr) return cudaErrorInvalidValue;
    copy_to_array(graph->nodes.size(), count, nodes != nullptr, [&](std::size_t i, bool there) {
      nodes[i] = there ? graph->nodes[i]->handle : nullptr;
    });
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaGraphGetRootNodes(cudaGraph_t handle, cudaGraphNode_t* nodes,
                                                 size_t* count) {
  static call_site site{"cudaGraphGetRootNodes"};
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    auto const graph = rt.graphs.find(handle);
    if (count == nullptr || graph == nullptr) return cudaErrorInvalidValue;
    std::vector<cudaGraphNode_t> roots;
    for (auto const& node : graph->nodes) {
      if (node->depends_on.empty()) roots.push_back(node->handle);
    }
    copy_to_array(roots.size(), count, nodes != nullptr,
                  [&](std::size_t i, bool there) { nodes[i] = there ? roots[i] : nullptr; });
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaGraphGetEdges(cudaGraph_t handle, cudaGraphNode_t* from,
                                             cudaGraphNode_t* to, cudaGraphEdgeData* edges,
                                             size_t* count) {
  static call_site site{"cudaGraphGetEdges"};
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    auto const graph = rt.graphs.find(handle);
    if (count == nullptr || graph == nullptr || (from == nullptr) != (to == nullptr) ||
        (from == nullptr && edges != nullptr)) {
      return cudaErrorInvalidValue;
    }
    std::vector<std::pair<cudaGraphNode_t, cudaGraphNode_t>> list;
    for (auto const& node : graph->nodes) {
      for (graph_node const* before : node->depends_on)
        list.emplace_back(before->handle, node->handle);
    }
    copy_to_array(list.size(), count, from != nullptr, [&](std::size_t i, bool there) {
      from[i] = there ? list[i].first : nullptr;
      to[i] = there ? list[i].second : nullptr;
      if (edges != nullptr) edges[i] = {};
    });
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node,
                                                        cudaGraphNode_t* dependencies,
                                                        cudaGraphEdgeData* edges, size_t* count) {
  static call_site site{"cudaGraphNodeGetDependencies"};
  return list_adjacent_nodes(site, node, dependencies, edges, count, &graph_node::depends_on);
}

WARPWRIGHT_API cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node,
                                                          cudaGraphNode_t* dependents,
                                                          cudaGraphEdgeData* edges, size_t* count) {
  static call_site site{"cudaGraphNodeGetDependentNodes"};
  return list_adjacent_nodes(site, node, dependents, edges, count, &graph_node::dependents);
}

WARPWRIGHT_API cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, cudaGraphNode_t const* from,
                                                    cudaGraphNode_t const* to,
                                                    cudaGraphEdgeData const*, size_t count) {
  static call_site site{"cudaGraphAddDependencies"};
  return change_edges(site, graph, from, to, count, true);
}

WARPWRIGHT_API cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph,
                                                       cudaGraphNode_t const* from,
                                                       cudaGraphNode_t const* to,
                                                       cudaGraphEdgeData const*, size_t count) {
  static call_site site{"cudaGraphRemoveDependencies"};
  return change_edges(site, graph, from, to, count, false);
}

WARPWRIGHT_API cudaError_t cudaGraphDestroyNode(cudaGraphNode_t handle) {
  static call_site site{"cudaGraphDestroyNode"};
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    auto const node = rt.nodes.find(handle);
    if (node == nullptr) return cudaErrorInvalidValue;
    graph_state& graph = *node->owner;
    if (graph.has_memory_nodes()) return cudaErrorNotSupported;
    for (auto const& session : rt.captures) {
      if (session->graph.get() == &graph) return cudaErrorInvalidValue;
      for (auto const& body : node->bodies) {
        if (session->graph == body) return cudaErrorInvalidValue;
      }
    }
    while (!node->depends_on.empty()) unlink(*node->depends_on.back(), *node);
    while (!node->dependents.empty()) unlink(*node, *node->dependents.back());
    if (node->child != nullptr) drop_graph(rt, *node->child);
    for (auto const& body : node->bodies) drop_graph(rt, *body);
    graph.nodes.erase(std::remove(graph.nodes.begin(), graph.nodes.end(), node), graph.nodes.end());
    rt.nodes.remove(handle);
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaGraphDebugDotPrint(cudaGraph_t handle, char const* path,
                                                  unsigned flags) {
  static call_site site{"cudaGraphDebugDotPrint"};
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    auto const graph = rt.graphs.find(handle);
    if (graph == nullptr || path == nullptr) return cudaErrorInvalidValue;
    std::FILE* file = open_for_writing(path);
    if (file == nullptr) return cudaErrorOperatingSystem;
    std::fprintf(file, "digraph graph_host_runtime {\n");
    for (std::size_t i = 0; i < graph->nodes.size(); ++i) graph->nodes[i]->index = i;
    for (auto const& node : graph->nodes) {
      std::fprintf(file, "  n%zu [label=\"%zu\\n%s", node->index, node->index,
                   type_name(node->type));
      if (node->type == cudaGraphNodeTypeKernel) {
        std::fprintf(file, "\\n%s", static_cast<kernel_work const&>(*node->what).name());
      }
      if ((flags & (cudaGraphDebugDotFlagsHandles | cudaGraphDebugDotFlagsVerbose)) != 0) {
        std::fprintf(file, "\\n%p", static_cast<void const*>(node->handle));
      }
      std::fprintf(file, "\"];\n");
    }
    for (auto const& node : graph->nodes) {
      for (graph_node const* before : node->depends_on) {
        std::fprintf(file, "  n%zu -> n%zu;\n", before->index, node->index);
      }
    }
    std::fprintf(file, "}\n");
    return std::fclose(file) == 0 ? cudaSuccess : cudaErrorOperatingSystem;
  });
}
