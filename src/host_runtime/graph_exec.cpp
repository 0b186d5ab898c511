// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Executable graphs. A launch is one operation of its stream, which runs the nodes one after
// another in topological order.
#include <algorithm>

#include "copy.hpp"
#include "graph.hpp"
#include "runtime.hpp"

namespace warpwright::host {

/// The steps of a launch, those of child graphs included.
struct launch_plan {
  struct step {
    enum class action { run, record, allocate, free, branch } what = action::run;
    std::shared_ptr<work const> job;
    std::shared_ptr<graph_memory> memory;
    std::size_t branch = 0;
  };
  struct conditional {
    std::shared_ptr<condition_state> condition;
    cudaGraphConditionalNodeType type = cudaGraphCondTypeIf;
    std::vector<launch_plan> bodies;
  };
  std::vector<step> steps;
  std::vector<std::shared_ptr<event_state>> recorded, awaited;
  std::vector<std::shared_ptr<graph_memory>> allocated, freed;
  std::vector<conditional> branches;  // of steps with action::branch
};

namespace {

class launch_work final : public work {
 public:
  launch_work(runtime& rt, device_state const& device, std::shared_ptr<launch_plan const> plan,
              std::vector<std::shared_ptr<sync_point>> marks,
              std::shared_ptr<user_references const> objects)
      : rt_(rt),
        device_(device),
        plan_(std::move(plan)),
        marks_(std::move(marks)),
        objects_(std::move(objects)) {}

  // Needs the lock. Completes the events of a launch that was dropped, so that waits for them end.
  ~launch_work() override {
    for (auto const& mark : marks_) {
      if (!mark->done.load(std::memory_order_relaxed)) finish(rt_, *mark);
    }
    if (objects_ != nullptr) objects_->release_to_destructors();
  }

  work_kind kind() const noexcept override { return work_kind::graph; }
  void run() const override {
    assign_defaults(*plan_);
    run(*plan_);
  }

 private:
  // Each graph execution begins with the default values.
  static void assign_defaults(launch_plan const& plan) {
    for (auto const& branch : plan.branches) {
      condition_state& condition = *branch.condition;
      if (condition.assign_default) {
        condition.value.store(condition.default_value, std::memory_order_relaxed);
      }
      for (launch_plan const& body : branch.bodies) assign_defaults(body);
    }
  }

  void run(launch_plan const& plan) const {
    std::size_t next_mark = 0;
    for (launch_plan::step const& step : plan.steps) {
      switch (step.what) {
        case launch_plan::step::action::run:
          if (device_.sticky.load(std::memory_order_relaxed) == 0) run_recorded_node(*step.job);
          break;
        case launch_plan::step::action::record: {
          sync_point& mark = *marks_[next_mark++];
          release(&mark.token);
          runtime_lock lock(rt_.mutex);
          finish(rt_, mark);
          break;
        }
        case launch_plan::step::action::allocate:
          set_accessible_bytes(step.memory->base, step.memory->bytes, step.memory->mapped_bytes);
          break;
        case launch_plan::step::action::free:
          set_accessible_bytes(step.memory->base, 0, step.memory->mapped_bytes);
          break;
        case launch_plan::step::action::branch:
          run(plan.branches[step.branch]);
          break;
      }
    }
  }

  void run(launch_plan::conditional const& branch) const {
    auto const value = [&branch] {
      return branch.condition->value.load(std::memory_order_relaxed);
    };
    switch (branch.type) {
      case cudaGraphCondTypeIf:
        if (value() != 0) {
          run(branch.bodies[0]);
        } else if (branch.bodies.size() > 1) {
          run(branch.bodies[1]);
        }
        break;
      case cudaGraphCondTypeWhile:
        while (value() != 0 && !stopping()) run(branch.bodies[0]);
        break;
      case cudaGraphCondTypeSwitch:
        if (value() < branch.bodies.size()) run(branch.bodies[value()]);
        break;
    }
  }

  // An endless loop ends at a reset, at exit, and when the device has failed.
  bool stopping() const {
    runtime_lock lock(rt_.mutex);
    return rt_.dropping || device_.sticky.load(std::memory_order_relaxed) != 0;
  }

  runtime& rt_;
  device_state const& device_;
  std::shared_ptr<launch_plan const> plan_;
  std::vector<std::shared_ptr<sync_point>> marks_;
  std::shared_ptr<user_references const> objects_;
};

// Computes a topological order, by creation among independent nodes. Returns false for a cycle.
bool order_nodes(std::vector<exec_node> const& nodes, std::vector<std::size_t>& order) {
  std::vector<std::size_t> unresolved(nodes.size());
  std::vector<std::vector<std::size_t>> dependents(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    unresolved[i] = nodes[i].depends_on.size();
    for (std::size_t const from : nodes[i].depends_on) dependents[from].push_back(i);
  }
  std::vector<std::size_t> ready;  // a heap, smallest index on top
  auto const later = [](std::size_t a, std::size_t b) { return a > b; };
  for (std::size_t i = nodes.size(); i-- > 0;) {
    if (unresolved[i] == 0) ready.push_back(i);
  }
  std::make_heap(ready.begin(), ready.end(), later);
  while (!ready.empty()) {
    std::pop_heap(ready.begin(), ready.end(), later);
    std::size_t const node = ready.back();
    ready.pop_back();
    order.push_back(node);
    for (std::size_t const next : dependents[node]) {
      if (--unresolved[next] == 0) {
        ready.push_back(next);
        std::push_heap(ready.begin(), ready.end(), later);
      }
    }
  }
  return order.size() == nodes.size();
}

std::vector<exec_node> copy_nodes(graph_state const& graph) {
  std::vector<exec_node> nodes;
  nodes.reserve(graph.nodes.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) graph.nodes[i]->index = i;
  for (auto const& node : graph.nodes) {
    exec_node copy;
    copy.type = node->type;
    copy.what = node->what;
    for (graph_node const* from : node->depends_on) copy.depends_on.push_back(from->index);
    copy.event = node->event;
    copy.event_handle = node->event_handle;
    copy.memory = node->memory;
    copy.condition = node->condition;
    copy.condition_type = node->condition_type;
    copy.source = node->handle;
    nodes.push_back(std::move(copy));
  }
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i]->child != nullptr) nodes[i].child = copy_nodes(*graph.nodes[i]->child);
    for (auto const& body : graph.nodes[i]->bodies) nodes[i].bodies.push_back(copy_nodes(*body));
  }
  return nodes;
}

bool order_all(std::vector<exec_node>& nodes, std::vector<std::size_t>& order) {
  for (exec_node& node : nodes) {
    if (!node.child.empty() && !order_all(node.child, node.child_order)) return false;
    node.body_orders.resize(node.bodies.size());
    for (std::size_t i = 0; i < node.bodies.size(); ++i) {
      if (!order_all(node.bodies[i], node.body_orders[i])) return false;
    }
  }
  return order_nodes(nodes, order);
}

void flatten(std::vector<exec_node> const& nodes, std::vector<std::size_t> const& order,
             launch_plan& plan) {
  using action = launch_plan::step::action;
  for (std::size_t const i : order) {
    exec_node const& node = nodes[i];
    if (!node.enabled) continue;
    switch (static_cast<int>(node.type)) {
      case cudaGraphNodeTypeGraph:
        flatten(node.child, node.child_order, plan);
        break;
      case cudaGraphNodeTypeEmpty:
        break;
      case cudaGraphNodeTypeEventRecord:
        plan.steps.push_back({action::record, nullptr, nullptr, 0});
        plan.recorded.push_back(node.event);
        break;
      case cudaGraphNodeTypeWaitEvent:
        plan.awaited.push_back(node.event);
        break;
      case cudaGraphNodeTypeMemAlloc:
        plan.steps.push_back({action::allocate, nullptr, node.memory, 0});
        plan.allocated.push_back(node.memory);
        break;
      case cudaGraphNodeTypeMemFree:
        plan.steps.push_back({action::free, nullptr, node.memory, 0});
        plan.freed.push_back(node.memory);
        break;
      case cudaGraphNodeTypeConditional: {
        launch_plan::conditional branch{node.condition, node.condition_type, {}};
        branch.bodies.resize(node.bodies.size());
        for (std::size_t b = 0; b < node.bodies.size(); ++b) {
          flatten(node.bodies[b], node.body_orders[b], branch.bodies[b]);
        }
        plan.steps.push_back({action::branch, nullptr, nullptr, plan.branches.size()});
        plan.branches.push_back(std::move(branch));
        break;
      }
      default:
        plan.steps.push_back({action::run, node.what, nullptr, 0});
        break;
    }
  }
}

std::shared_ptr<launch_plan const> const& plan_of(exec_state& exec) {
  if (exec.plan == nullptr) {
    auto plan = std::make_shared<launch_plan>();
    flatten(exec.nodes, exec.order, *plan);
    exec.plan = std::move(plan);
  }
  return exec.plan;
}

void collect(graph_state const& graph, user_references& all) {
  all.add(graph.objects);
  for (auto const& node : graph.nodes) {
    if (node->child != nullptr) collect(*node->child, all);
    for (auto const& body : node->bodies) collect(*body, all);
  }
}

// Collects the user objects of a graph and its child graphs for an executable graph; null: none.
std::shared_ptr<user_references const> references_of(graph_state const& graph) {
  auto all = std::make_shared<user_references>();
  collect(graph, *all);
  return all->empty() ? nullptr : all;
}

// Whether a conditional node's body has only the node types that CUDA allows there.
bool allowed_in_body(graph_state const& graph) {
  return std::all_of(graph.nodes.begin(), graph.nodes.end(), [](auto const& node) {
    switch (static_cast<int>(node->type)) {  // a later toolkit may have more
      case cudaGraphNodeTypeKernel:
      case cudaGraphNodeTypeMemcpy:
      case cudaGraphNodeTypeMemset:
      case cudaGraphNodeTypeEmpty:
      case cudaGraphNodeTypeConditional:
        return true;
      case cudaGraphNodeTypeGraph:
        return allowed_in_body(*node->child);
      default:
        return false;
    }
  });
}

cudaError_t check_conditions(graph_state const& graph, cudaGraphInstantiateResult& result) {
  for (auto const& condition : graph.conditions) {
    if (condition->used) continue;
    result = cudaGraphInstantiateConditionalHandleUnused;
    return cudaErrorInvalidValue;
  }
  for (auto const& node : graph.nodes) {
    for (auto const& body : node->bodies) {
      if (!allowed_in_body(*body)) return cudaErrorNotSupported;
      if (cudaError_t const code = check_conditions(*body, result)) return code;
    }
  }
  return cudaSuccess;
}

cudaError_t instantiate(runtime& rt, cudaGraphExec_t* handle, cudaGraph_t graph_handle,
                        unsigned long long flags, cudaGraphInstantiateResult* result) {
  constexpr unsigned long long known =
      cudaGraphInstantiateFlagAutoFreeOnLaunch | cudaGraphInstantiateFlagUpload |
      cudaGraphInstantiateFlagDeviceLaunch | cudaGraphInstantiateFlagUseNodePriority;
  if (result != nullptr) *result = cudaGraphInstantiateError;
  auto const graph = rt.graphs.find(graph_handle);
  if (handle == nullptr || graph == nullptr || (flags & ~known) != 0) return cudaErrorInvalidValue;
  if ((flags & cudaGraphInstantiateFlagDeviceLaunch) != 0) return cudaErrorNotSupported;
  graph_was_instantiated.store(true);
  bool const single = graph->has_memory_nodes() || graph->has_conditional_nodes();
  if (single && !graph->only_exec.expired()) return cudaErrorInvalidValue;
  if (graph->parent != nullptr) return cudaErrorInvalidValue;  // a conditional node's body
  cudaGraphInstantiateResult reason = cudaGraphInstantiateError;
  if (cudaError_t const code = check_conditions(*graph, reason)) {
    if (result != nullptr) *result = reason;
    return code;
  }
  auto exec = std::make_shared<exec_state>();
  exec->flags = flags;
  exec->device = &current_device(rt);
  exec->nodes = copy_nodes(*graph);
  exec->objects = references_of(*graph);
  if (!order_all(exec->nodes, exec->order)) {
    if (result != nullptr) *result = cudaGraphInstantiateInvalidStructure;
    return cudaErrorInvalidValue;
  }
  if (single) graph->only_exec = exec;
  *handle = rt.execs.add(std::move(exec));
  if (result != nullptr) *result = cudaGraphInstantiateSuccess;
  return cudaSuccess;
}

cudaError_t charge_memory(runtime& rt, launch_plan const& plan) {
  for (auto const& memory : plan.allocated) {
    if (!memory->charge(rt)) return cudaErrorMemoryAllocation;
  }
  return cudaSuccess;
}

// Updates the host's state for a launch's allocations and frees, after all of them have been
// checked.
cudaError_t account_memory(runtime& rt, exec_state const& exec, launch_plan const& plan) {
  bool const auto_free = (exec.flags & cudaGraphInstantiateFlagAutoFreeOnLaunch) != 0;
  auto const allocated_here = [&plan](std::shared_ptr<graph_memory> const& memory) {
    return std::find(plan.allocated.begin(), plan.allocated.end(), memory) != plan.allocated.end();
  };
  auto const freed_here = [&plan](std::shared_ptr<graph_memory> const& memory) {
    return std::find(plan.freed.begin(), plan.freed.end(), memory) != plan.freed.end();
  };
  for (auto const& memory : plan.allocated) {
    if (memory->live && !auto_free) return cudaErrorInvalidValue;
  }
  for (auto const& memory : plan.freed) {
    if (!allocated_here(memory) && !memory->live) return cudaErrorInvalidValue;
  }
  if (cudaError_t const code = charge_memory(rt, plan)) return code;
  std::uint64_t passing = 0;
  for (auto const& memory : plan.allocated) {
    if (memory->live) end_graph_memory(rt, memory->base);
    passing += memory->bytes;
  }
  for (auto const& memory : plan.allocated) {
    device_state& device = *memory->device;
    device.graph_used_high = (std::max)(device.graph_used_high, device.graph_used + passing);
    if (!freed_here(memory)) start_graph_memory(rt, memory);
  }
  for (auto const& memory : plan.freed) {
    if (!allocated_here(memory)) end_graph_memory(rt, memory->base);
  }
  return cudaSuccess;
}

cudaError_t launch(runtime& rt, cudaGraphExec_t handle, stream_state& stream) {
  auto const exec = rt.execs.find(handle);
  if (exec == nullptr) return cudaErrorInvalidValue;
  if (cudaError_t const code = forbid_implicit(rt, stream)) return code;
  if (stream.capture != nullptr) {
    invalidate_capture(*stream.capture);
    return cudaErrorStreamCaptureUnsupported;
  }
  std::shared_ptr<const launch_plan> const plan = plan_of(*exec);
  if (cudaError_t const code = account_memory(rt, *exec, *plan)) return code;
  std::vector<std::shared_ptr<sync_point>> waits;
  // Launches of one executable graph do not overlap.
  if (exec->last_launch != nullptr) waits.push_back(exec->last_launch);
  for (auto const& event : plan->awaited) {
    if (event->record != nullptr) waits.push_back(event->record);
  }
  std::vector<std::shared_ptr<sync_point>> marks;
  for (auto const& event : plan->recorded) {
    auto mark = std::make_shared<sync_point>();
    mark->channel = stream.channel;
    event->record = mark;
    event->captured = false;
    event->capture.reset();
    marks.push_back(std::move(mark));
  }
  auto what =
      std::make_shared<launch_work>(rt, *stream.device, plan, std::move(marks), exec->objects);
  exec->last_launch = enqueue(rt, stream, std::move(what), std::move(waits));
  for (auto const& memory : plan->allocated) memory->last_use = exec->last_launch;
  return cudaSuccess;
}

// ---- update

struct difference {
  cudaGraphExecUpdateResult result = cudaGraphExecUpdateSuccess;
  cudaGraphNode_t node = nullptr;
  cudaGraphNode_t from = nullptr;
};

difference compare_work(exec_node const& old_node, graph_node const& node) {
  difference const changed{cudaGraphExecUpdateErrorParametersChanged, node.handle, nullptr};
  if (node.type == cudaGraphNodeTypeMemcpy) {
    copy_shape const& a = static_cast<copy_work const&>(*old_node.what).shape();
    copy_shape const& b = static_cast<copy_work const&>(*node.what).shape();
    bool const line = a.height == 1 && a.depth == 1 && b.height == 1 && b.depth == 1;
    bool const same_extent = a.width == b.width && a.height == b.height && a.depth == b.depth;
    if (a.kind != b.kind || a.to_device != b.to_device || a.from_device != b.from_device ||
        (!line && !same_extent)) {
      return changed;
    }
  } else if (node.type == cudaGraphNodeTypeMemset) {
    fill_shape const& a = static_cast<fill_work const&>(*old_node.what).shape();
    fill_shape const& b = static_cast<fill_work const&>(*node.what).shape();
    bool const line = a.height == 1 && b.height == 1;
    bool const same_extent =
        a.width == b.width && a.height == b.height && a.element_bytes == b.element_bytes;
    if (!line && !same_extent) return changed;
  } else if (node.type == cudaGraphNodeTypeMemAlloc || node.type == cudaGraphNodeTypeMemFree) {
    if (old_node.memory != node.memory) {
      return {cudaGraphExecUpdateErrorNotSupported, node.handle, nullptr};
    }
  } else if (node.type == cudaGraphNodeTypeConditional) {
    if (old_node.condition_type != node.condition_type ||
        old_node.bodies.size() != node.bodies.size()) {
      return changed;
    }
  }
  return {};
}

// Compares nodes pairwise in creation order.
difference compare(std::vector<exec_node> const& nodes, graph_state const& graph) {
  if (nodes.size() != graph.nodes.size()) {
    return {cudaGraphExecUpdateErrorTopologyChanged, nullptr, nullptr};
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) graph.nodes[i]->index = i;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    graph_node const& node = *graph.nodes[i];
    if (nodes[i].depends_on.size() != node.depends_on.size()) {
      return {cudaGraphExecUpdateErrorTopologyChanged, node.handle, nullptr};
    }
    for (graph_node const* from : node.depends_on) {
      auto const& before = nodes[i].depends_on;
      if (std::find(before.begin(), before.end(), from->index) == before.end()) {
        return {cudaGraphExecUpdateErrorTopologyChanged, node.handle, from->handle};
      }
    }
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    graph_node const& node = *graph.nodes[i];
    if (nodes[i].type != node.type) {
      return {cudaGraphExecUpdateErrorNodeTypeChanged, node.handle, nullptr};
    }
    if (difference const d = compare_work(nodes[i], node); d.result != cudaGraphExecUpdateSuccess) {
      return d;
    }
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    graph_node const& node = *graph.nodes[i];
    if (node.child != nullptr) {
      difference const d = compare(nodes[i].child, *node.child);
      if (d.result != cudaGraphExecUpdateSuccess) return d;
    }
    for (std::size_t b = 0; b < node.bodies.size(); ++b) {
      difference const d = compare(nodes[i].bodies[b], *node.bodies[b]);
      if (d.result != cudaGraphExecUpdateSuccess) return d;
    }
  }
  return {};
}

void copy_parameters(std::vector<exec_node>& nodes, graph_state const& graph) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    graph_node const& node = *graph.nodes[i];
    nodes[i].what = node.what;
    nodes[i].event = node.event;
    nodes[i].event_handle = node.event_handle;
    // The kernels of the new graph set the new graph's handle.
    nodes[i].condition = node.condition;
    if (node.child != nullptr) copy_parameters(nodes[i].child, *node.child);
    for (std::size_t b = 0; b < node.bodies.size(); ++b) {
      copy_parameters(nodes[i].bodies[b], *node.bodies[b]);
    }
  }
}

exec_node* find_exec_node(std::vector<exec_node>& nodes, cudaGraphNode_t source) {
  for (exec_node& node : nodes) {
    if (node.source == source) return &node;
    if (exec_node* inside = find_exec_node(node.child, source)) return inside;
    for (auto& body : node.bodies) {
      if (exec_node* inside = find_exec_node(body, source)) return inside;
    }
  }
  return nullptr;
}

// Changes one node of an executable graph: change(rt, node) -> error.
template <class Change>
cudaError_t change_node(call_site& site, cudaGraphExec_t handle, cudaGraphNode_t source,
                        Change&& change) {
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    auto const exec = rt.execs.find(handle);
    if (exec == nullptr) return cudaErrorInvalidValue;
    exec_node* node = find_exec_node(exec->nodes, source);
    if (node == nullptr) return cudaErrorInvalidValue;
    cudaError_t const code = change(rt, *node);
    if (code == cudaSuccess) exec->plan.reset();
    return code;
  });
}

// Replaces the work of a node if an update to it is allowed.
cudaError_t replace_work(exec_node& node, cudaGraphNodeType type,
                         std::shared_ptr<work const> what) {
  if (node.type != type) return cudaErrorInvalidValue;
  graph_node replacement;
  replacement.type = type;
  replacement.what = std::move(what);
  if (compare_work(node, replacement).result != cudaGraphExecUpdateSuccess)
    return cudaErrorInvalidValue;
  node.what = std::move(replacement.what);
  return cudaSuccess;
}

}  // namespace
}  // namespace warpwright::host

using namespace warpwright::host;

WARPWRIGHT_API cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                unsigned long long flags) {
  static call_site site{"cudaGraphInstantiate"};
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    if (cudaError_t const code = forbid_unsafe(rt)) return code;
    return instantiate(rt, exec, graph, flags, nullptr);
  });
}

WARPWRIGHT_API cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                         unsigned long long flags) {
  static call_site site{"cudaGraphInstantiateWithFlags"};
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    if (cudaError_t const code = forbid_unsafe(rt)) return code;
    return instantiate(rt, exec, graph, flags, nullptr);
  });
}

namespace {

cudaError_t instantiate_with_params(null_stream default_stream, cudaGraphExec_t* exec,
                                    cudaGraph_t graph, cudaGraphInstantiateParams* parameters) {
  static call_site site{"cudaGraphInstantiateWithParams"};
  return api(site, needs::device, [&](runtime& rt) {
    if (parameters == nullptr) return cudaErrorInvalidValue;
    runtime_lock lock(rt.mutex);
    parameters->errNode_out = nullptr;
    if (cudaError_t const code = forbid_unsafe(rt)) {
      parameters->result_out = cudaGraphInstantiateError;
      return code;
    }
    if ((parameters->flags & cudaGraphInstantiateFlagUpload) != 0 &&
        find_stream(rt, parameters->uploadStream, default_stream) == nullptr) {
      parameters->result_out = cudaGraphInstantiateError;
      return cudaErrorInvalidResourceHandle;
    }
    return instantiate(rt, exec, graph, parameters->flags, &parameters->result_out);
  });
}

cudaError_t graph_launch(null_stream default_stream, cudaGraphExec_t exec, cudaStream_t handle) {
  static call_site site{"cudaGraphLaunch"};
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    auto const stream = find_stream(rt, handle, default_stream);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    return launch(rt, exec, *stream);
  });
}

cudaError_t graph_upload(null_stream default_stream, cudaGraphExec_t handle,
                         cudaStream_t stream_handle) {
  static call_site site{"cudaGraphUpload"};
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    auto const exec = rt.execs.find(handle);
    auto const stream = find_stream(rt, stream_handle, default_stream);
    if (exec == nullptr) return cudaErrorInvalidValue;
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (cudaError_t const code = forbid_implicit(rt, *stream)) return code;
    if (stream->capture != nullptr) {
      invalidate_capture(*stream->capture);
      return cudaErrorStreamCaptureUnsupported;
    }
    if (cudaError_t const code = charge_memory(rt, *plan_of(*exec))) return code;
    enqueue(rt, *stream, nullptr);
    return cudaSuccess;
  });
}

}  // namespace

WARPWRIGHT_STREAM_API(cudaGraphInstantiateWithParams, _ptsz, instantiate_with_params,
                      (cudaGraphExec_t * exec, cudaGraph_t graph,
                       cudaGraphInstantiateParams* parameters),
                      (exec, graph, parameters))
WARPWRIGHT_STREAM_API(cudaGraphLaunch, _ptsz, graph_launch,
                      (cudaGraphExec_t exec, cudaStream_t stream), (exec, stream))
WARPWRIGHT_STREAM_API(cudaGraphUpload, _ptsz, graph_upload,
                      (cudaGraphExec_t exec, cudaStream_t stream), (exec, stream))

WARPWRIGHT_API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t handle) {
  static call_site site{"cudaGraphExecDestroy"};
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    if (cudaError_t const code = forbid_unsafe(rt)) return code;
    // Launches in flight hold references to the state that they use.
    std::shared_ptr<exec_state> const exec = rt.execs.remove(handle);
    return exec != nullptr ? cudaSuccess : cudaErrorInvalidValue;
  });
}

WARPWRIGHT_API cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t handle,
                                                 unsigned long long* flags) {
  static call_site site{"cudaGraphExecGetFlags"};
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    auto const exec = rt.execs.find(handle);
    if (exec == nullptr || flags == nullptr) return cudaErrorInvalidValue;
    // An H100's driver (13.0) reports neither of these two.
    *flags =
        exec->flags & ~static_cast<unsigned long long>(cudaGraphInstantiateFlagUpload |
                                                       cudaGraphInstantiateFlagUseNodePriority);
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaGraphExecUpdate(cudaGraphExec_t handle, cudaGraph_t graph_handle,
                                               cudaGraphExecUpdateResultInfo* info) {
  static call_site site{"cudaGraphExecUpdate"};
  return api(site, needs::device, [&](runtime& rt) {
    if (info == nullptr) return cudaErrorInvalidValue;
    *info = {cudaGraphExecUpdateError, nullptr, nullptr};
    runtime_lock lock(rt.mutex);
    auto const exec = rt.execs.find(handle);
    auto const graph = rt.graphs.find(graph_handle);
    if (exec == nullptr || graph == nullptr) return cudaErrorInvalidValue;
    difference const d = compare(exec->nodes, *graph);
    *info = {d.result, d.node, d.from};
    if (d.result != cudaGraphExecUpdateSuccess) return cudaErrorGraphExecUpdateFailure;
    auto objects = references_of(*graph);
    copy_parameters(exec->nodes, *graph);
    exec->objects = std::move(objects);
    exec->plan.reset();
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec,
                                                              cudaGraphNode_t node, void* to,
                                                              void const* from, size_t bytes,
                                                              cudaMemcpyKind kind) {
  static call_site site{"cudaGraphExecMemcpyNodeSetParams1D"};
  return change_node(site, exec, node, [&](runtime& rt, exec_node& n) {
    copy_shape shape;
    shape.to = static_cast<std::byte*>(to);
    shape.from = static_cast<std::byte const*>(from);
    shape.width = bytes;
    shape.kind = kind;
    if (cudaError_t const code = check_copy(rt, shape)) return code;
    return replace_work(n, cudaGraphNodeTypeMemcpy, std::make_shared<copy_work>(shape));
  });
}

WARPWRIGHT_API cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec,
                                                            cudaGraphNode_t node,
                                                            cudaMemsetParams const* parameters) {
  static call_site site{"cudaGraphExecMemsetNodeSetParams"};
  return change_node(site, exec, node, [&](runtime& rt, exec_node& n) {
    if (parameters == nullptr) return cudaErrorInvalidValue;
    fill_shape shape;
    if (cudaError_t const code = shape_of(*parameters, shape)) return code;
    if (cudaError_t const code = check_fill(rt, shape)) return code;
    return replace_work(n, cudaGraphNodeTypeMemset, std::make_shared<fill_work>(shape));
  });
}

WARPWRIGHT_API cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec,
                                                          cudaGraphNode_t node,
                                                          cudaHostNodeParams const* parameters) {
  static call_site site{"cudaGraphExecHostNodeSetParams"};
  return change_node(site, exec, node, [&](runtime&, exec_node& n) {
    if (parameters == nullptr || parameters->fn == nullptr) return cudaErrorInvalidValue;
    return replace_work(n, cudaGraphNodeTypeHost,
                        std::make_shared<host_work>(parameters->fn, parameters->userData));
  });
}

WARPWRIGHT_API cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                   unsigned enabled) {
  static call_site site{"cudaGraphNodeSetEnabled"};
  return change_node(site, exec, node, [&](runtime&, exec_node& n) {
    if (n.type != cudaGraphNodeTypeKernel && n.type != cudaGraphNodeTypeMemcpy &&
        n.type != cudaGraphNodeTypeMemset) {
      return cudaErrorInvalidValue;
    }
    n.enabled = enabled != 0;
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                   unsigned* enabled) {
  static call_site site{"cudaGraphNodeGetEnabled"};
  return change_node(site, exec, node, [&](runtime&, exec_node& n) {
    if (enabled == nullptr) return cudaErrorInvalidValue;
    *enabled = n.enabled ? 1 : 0;
    return cudaSuccess;
  });
}
