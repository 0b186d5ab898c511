// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Graphs, executable graphs and captures.
#pragma once

#include <pthread.h>

#include <algorithm>

#include "runtime.hpp"
#include "work.hpp"

namespace warpwright::host {

/// A user object: a callback that is called when the last reference is released.
struct user_object {
  cudaUserObject_t handle = nullptr;
  cudaHostFn_t destroy = nullptr;
  void* data = nullptr;
  std::uint64_t program_references = 0;  // owned by the program
  std::uint64_t graph_references = 0;    // owned by graphs and launches
  std::shared_ptr<user_object> next;     // in the queue of pending destructors
  char token = 0;                        // released with each reference, acquired by the callback
};

/// The references to user objects of one owner, released by the destructor. Needs the lock.
class user_references {
 public:
  user_references() = default;
  ~user_references() { clear(); }
  user_references(user_references const&) = delete;
  user_references& operator=(user_references const&) = delete;

  void add(std::shared_ptr<user_object> const& object, std::uint64_t count);
  void add(user_references const& others);
  /// Returns false if the owner does not have that many references.
  bool remove(std::shared_ptr<user_object> const& object, std::uint64_t count);
  void clear() noexcept;
  bool empty() const noexcept { return counts_.empty(); }
  /// Orders the objects' destructors after a completed launch, whichever owner releases the last
  /// reference.
  void release_to_destructors() const noexcept;

 private:
  std::map<std::shared_ptr<user_object>, std::uint64_t> counts_;
};

/// Memory that a graph allocates: its address is fixed for the lifetime of the graph and its
/// copies.
struct graph_memory {
  device_state* device = nullptr;
  std::uintptr_t base = 0;
  std::size_t bytes = 0;
  std::size_t mapped_bytes = 0;
  bool charged = false;  // counts against the device's memory
  bool live = false;     // allocated by a launch and not freed by the same graph
  std::shared_ptr<sync_point> last_use;

  ~graph_memory();  // needs the lock
  bool charge(runtime& rt);
  void uncharge();
};

/// The value of a conditional handle. Kernels write it without the lock, one at a time.
struct condition_state {
  cudaGraphConditionalHandle handle = 0;
  unsigned default_value = 0;
  bool assign_default = false;
  bool used = false;  // by a conditional node
  std::atomic<unsigned> value{0};
};

struct graph_node {
  cudaGraphNode_t handle = nullptr;
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  graph_state* owner = nullptr;
  std::shared_ptr<work const> what;  // null: empty and child graph nodes
  std::vector<graph_node*> depends_on;
  std::vector<graph_node*> dependents;
  std::shared_ptr<graph_state> child;
  cudaEvent_t event_handle = nullptr;  // event record and wait nodes
  std::shared_ptr<event_state> event;
  std::shared_ptr<graph_memory> memory;  // alloc and free nodes
  cudaMemAllocNodeParams alloc_params = {};
  void* freed_pointer = nullptr;               // free nodes
  std::shared_ptr<condition_state> condition;  // conditional nodes
  cudaGraphConditionalNodeType condition_type = cudaGraphCondTypeIf;
  std::vector<std::shared_ptr<graph_state>> bodies;
  std::vector<cudaGraph_t> body_handles;
  cudaGraphNode_t cloned_from = nullptr;
  std::size_t index = 0;  // scratch space of graph traversals
};

struct graph_state {
  cudaGraph_t handle = nullptr;
  std::vector<std::shared_ptr<graph_node>> nodes;  // in creation order
  bool owned_by_user = true;  // false: owned by a capture or by a child graph or conditional node
  std::weak_ptr<exec_state> only_exec;  // a graph with memory or conditional nodes has at most one
  user_references objects;              // without those of child graphs
  std::vector<std::shared_ptr<condition_state>> conditions;  // of its handles
  graph_state* parent = nullptr;                             // of a conditional node's body
  bool has_memory_nodes() const;
  bool has_conditional_nodes() const;
};

struct capture_session {
  enum class status { active, invalidated, ended };

  std::uint64_t id = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  pthread_t thread = {};
  status state = status::active;
  std::shared_ptr<stream_state> origin;
  std::vector<std::shared_ptr<stream_state>> members;  // origin included
  std::shared_ptr<graph_state> graph;
  bool graph_was_given = false;  // cudaStreamBeginCaptureToGraph
};

/// One node of an executable graph: its work, and the node of the source graph.
struct exec_node {
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  std::shared_ptr<work const> what;
  std::vector<std::size_t> depends_on;  // indices in creation order
  std::vector<exec_node> child;         // child graph nodes
  std::vector<std::size_t> child_order;
  std::shared_ptr<condition_state> condition;  // conditional nodes
  cudaGraphConditionalNodeType condition_type = cudaGraphCondTypeIf;
  std::vector<std::vector<exec_node>> bodies;
  std::vector<std::vector<std::size_t>> body_orders;
  cudaEvent_t event_handle = nullptr;
  std::shared_ptr<event_state> event;
  std::shared_ptr<graph_memory> memory;
  cudaGraphNode_t source = nullptr;
  bool enabled = true;
};

struct launch_plan;

struct exec_state {
  std::vector<exec_node> nodes;    // in creation order
  std::vector<std::size_t> order;  // execution order
  unsigned long long flags = 0;
  std::shared_ptr<sync_point> last_launch;
  std::shared_ptr<launch_plan const> plan;  // null: to be built again after a change
  // Shared with launches: the references exist until the last launch has completed.
  std::shared_ptr<user_references const> objects;
  device_state* device = nullptr;
};

/// Finds the graph and the dependencies of a cudaGraphAdd...Node call.
cudaError_t open_node(runtime& rt, cudaGraphNode_t const* made, cudaGraph_t graph_handle,
                      cudaGraphNode_t const* dependencies, std::size_t count,
                      std::shared_ptr<graph_state>& graph, std::vector<graph_node*>& depends_on);
/// Whether all edges are ordinary dependencies, the only ones that are implemented.
bool plain_edges(cudaGraphEdgeData const* data, std::size_t count);
/// Adds a node. The caller checks that the dependencies belong to `graph`.
graph_node* add_node(runtime& rt, graph_state& graph, cudaGraphNodeType type,
                     std::shared_ptr<work const> what, std::vector<graph_node*> const& depends_on);
std::shared_ptr<graph_state> make_graph(runtime& rt);
void drop_graph(runtime& rt, graph_state& graph);
/// Captures work of `stream` as a node, or returns the error.
cudaError_t capture_node(runtime& rt, stream_state& stream, cudaGraphNodeType type,
                         std::shared_ptr<work const> what, graph_node** made);
inline bool contains(std::vector<graph_node*> const& nodes, graph_node const* node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}
/// Returns cudaErrorStreamCaptureInvalidated if the stream's capture is invalidated.
cudaError_t check_capture_valid(stream_state& stream);
/// Removes a destroyed stream from its capture: ends the capture if it began on the stream, else
/// invalidates it.
void abandon_capture(runtime& rt, std::shared_ptr<stream_state> const& stream);
/// Reserves an address range for an alloc node.
std::shared_ptr<graph_memory> make_graph_memory(runtime& rt, device_state& device,
                                                std::size_t bytes);
std::shared_ptr<graph_memory> find_graph_memory(runtime& rt, void const* pointer);
/// Makes the memory live: a launch allocates it for the program. end_graph_memory() frees it and
/// returns it, so that its pages exist until the stream reaches the free; null if it was not live.
void start_graph_memory(runtime& rt, std::shared_ptr<graph_memory> const& memory);
std::shared_ptr<graph_memory> end_graph_memory(runtime& rt, std::uintptr_t base);
cudaError_t capture_allocation(runtime& rt, stream_state& stream, pool_state* pool,
                               std::size_t bytes, void** pointer);
cudaError_t capture_free(runtime& rt, stream_state& stream, void* pointer);

}  // namespace warpwright::host
