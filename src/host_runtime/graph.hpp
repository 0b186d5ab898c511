// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Graphs, their executable copies, and captures that build them.
#pragma once

#include <pthread.h>

#include "runtime.hpp"
#include "work.hpp"

namespace warpwright::host {

/// What cudaUserObjectCreate made: a callback for when nobody refers to it any more.
struct user_object {
  cudaUserObject_t handle = nullptr;
  cudaHostFn_t destroy = nullptr;
  void* data = nullptr;
  std::uint64_t of_program = 0;       // references that the program owns
  std::uint64_t of_graphs = 0;        // references that graphs and launches own
  std::shared_ptr<user_object> next;  // in the queue of callbacks that are due
  char token = 0;                     // released with each reference, acquired by the callback
};

/// References to user objects with one owner; given back when it goes. Under the lock.
class user_references {
 public:
  user_references() = default;
  ~user_references() { clear(); }
  user_references(user_references const&) = delete;
  user_references& operator=(user_references const&) = delete;

  void add(std::shared_ptr<user_object> const& object, std::uint64_t count);
  void add(user_references const& others);
  /// False when the owner does not have that many.
  bool remove(std::shared_ptr<user_object> const& object, std::uint64_t count);
  void clear() noexcept;
  bool empty() const noexcept { return counts_.empty(); }
  /// A launch has ended: the destructors come behind it, whoever gives the last reference back.
  void release_to_destructors() const noexcept;

 private:
  std::map<std::shared_ptr<user_object>, std::uint64_t> counts_;
};

/// Memory that a graph allocates: one address for the life of the graph and its copies.
struct graph_memory {
  device_state* device = nullptr;
  std::uintptr_t base = 0;
  std::size_t bytes = 0;
  std::size_t mapped_bytes = 0;
  bool charged = false;  // counted against the device
  bool live = false;     // a launch allocated it for use outside of the graph
  std::shared_ptr<milestone> last_use;

  ~graph_memory();  // under the lock
  bool charge(runtime& rt);
  void uncharge();
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
  void* freed_pointer = nullptr;  // free nodes
  cudaGraphNode_t cloned_from = nullptr;
  std::size_t index = 0;  // scratch for walks over the graph
};

struct graph_state {
  cudaGraph_t handle = nullptr;
  std::vector<std::shared_ptr<graph_node>> nodes;  // in the order they were made
  bool owned_by_user = true;                       // false: a capture's, or inside a child node
  std::weak_ptr<exec_state> memory_exec;           // with memory nodes there is one at most
  user_references objects;                         // child graphs have their own
  bool has_memory_nodes() const;
};

struct capture_session {
  enum class status { active, broken, ended };

  std::uint64_t id = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  pthread_t thread = {};
  status state = status::active;
  cudaError_t broken_by = cudaErrorStreamCaptureInvalidated;
  std::shared_ptr<stream_state> origin;
  std::vector<std::shared_ptr<stream_state>> members;  // origin included
  std::shared_ptr<graph_state> graph;
  bool graph_was_given = false;  // cudaStreamBeginCaptureToGraph
};

/// One node of an executable graph: what to do, and the node of the source it came from.
struct exec_node {
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  std::shared_ptr<work const> what;
  std::vector<std::size_t> depends_on;  // indices in creation order
  std::vector<exec_node> child;         // child graph nodes
  std::vector<std::size_t> child_order;
  cudaEvent_t event_handle = nullptr;
  std::shared_ptr<event_state> event;
  std::shared_ptr<graph_memory> memory;
  cudaGraphNode_t source = nullptr;
  bool enabled = true;
};

struct launch_plan;

struct exec_state {
  std::vector<exec_node> nodes;    // in creation order
  std::vector<std::size_t> order;  // to run them in
  unsigned long long flags = 0;
  std::shared_ptr<milestone> last_launch;
  std::shared_ptr<launch_plan const> plan;  // null after a change
  // Launches share them: replaced or dropped, they last until the last launch is done.
  std::shared_ptr<user_references const> objects;
  device_state* device = nullptr;
};

/// Adds a node; null `graph` or a dependency of another graph is the caller's to refuse.
graph_node* add_node(runtime& rt, graph_state& graph, cudaGraphNodeType type,
                     std::shared_ptr<work const> what, std::vector<graph_node*> const& depends_on);
std::shared_ptr<graph_state> make_graph(runtime& rt);
void drop_graph(runtime& rt, graph_state& graph);
/// Records work in the capture of `stream`; answers why not when it cannot.
cudaError_t capture_node(runtime& rt, stream_state& stream, cudaGraphNodeType type,
                         std::shared_ptr<work const> what, graph_node** made);
/// The stream's capture, checked: cudaErrorStreamCaptureInvalidated when it is broken.
cudaError_t capture_usable(stream_state& stream);
/// A capturing stream is destroyed: its capture ends with it, or breaks where it only took part.
void abandon_capture(runtime& rt, std::shared_ptr<stream_state> const& stream);
/// Memory with an address of its own for alloc nodes.
std::shared_ptr<graph_memory> make_graph_memory(runtime& rt, device_state& device,
                                                std::size_t bytes);
std::shared_ptr<graph_memory> find_graph_memory(runtime& rt, void const* pointer);
/// A launch hands the memory to the program / the program or a launch gives it back. The latter
/// returns it, so that its pages live on until the stream comes to the free; null: not live.
void start_graph_memory(runtime& rt, std::shared_ptr<graph_memory> const& memory);
std::shared_ptr<graph_memory> end_graph_memory(runtime& rt, std::uintptr_t base);
cudaError_t capture_allocation(runtime& rt, stream_state& stream, pool_state* pool,
                               std::size_t bytes, void** pointer);
cudaError_t capture_free(runtime& rt, stream_state& stream, void* pointer);

}  // namespace warpwright::host
