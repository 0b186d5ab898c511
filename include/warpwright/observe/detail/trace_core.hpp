// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Where records come from, and what a trace has recorded, in nanoseconds of
// monotonic_nanoseconds().
#pragma once

#include <warpwright/core/detail/container/address_map.hpp>
#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/detail/system/activity_records.hpp>
#include <warpwright/core/detail/thread/atomic.hpp>
#include <warpwright/core/detail/thread/locks.hpp>
#include <warpwright/core/detail/thread/process_bound.hpp>
#include <warpwright/observe/detail/span_store.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

WARPWRIGHT_BEGIN

namespace detail {

class dynamic_library;

/// Set while another part of the library is CUPTI's subscriber, so that a trace does not take it
/// for a foreign tool.
__attribute__((visibility("default"))) inline atomic<bool> library_subscribes_to_cupti{false};

/// The buffers of activity records, of the process: CUPTI's callbacks have no context, and it may
/// keep buffers to the end. They are never freed.
struct activity_buffers {
  static constexpr std::size_t buffer_bytes = std::size_t{1} << 20U;

  struct filled_buffer {
    std::uint8_t* begin;
    std::size_t bytes;
  };

  mutex beginning;             // held to load CUPTI, and to subscribe: by one thread at a time
  spin_lock lock;              // of the lists, whose memory is reserved
  array<std::uint8_t*> spare;  // all zero
  array<filled_buffer> filled;
  std::size_t made = 0;
  bool keep = false;            // filled buffers; else they are emptied at once
  bool graphs_enabled = false;  // whole graphs, for good
  atomic<bool> in_use;          // by a trace
  int (*registered)(activity_functions::request, activity_functions::complete) = nullptr;
  dynamic_library* library = nullptr;  // CUPTI, never unloaded: it keeps callbacks
  std::string path;                    // of it; empty: a usual place
  activity_functions functions{};      // its

  /// @throws std::bad_alloc  and there are fewer
  void make(std::size_t count);
};

activity_buffers& the_activity_buffers() noexcept;

/// Loads CUPTI, or takes the host runtime's functions.
/// @param path  of CUPTI; null: the usual places
/// @return what is wrong, with the remedy; empty: nothing
std::string load_activity_functions(char const* path, activity_functions& functions);

/// Registers the buffers, and enables kernels for a moment: what is not permitted fails here.
/// @return as above
std::string try_activity(activity_functions const& functions, bool whole_graphs);
/// @return an error of one of these functions, with the remedy
std::string activity_problem(activity_functions const& functions, char const* call, int code);

struct trace_values {
  std::size_t wait = 0;
  std::size_t warm_up = 0;
  std::size_t record = std::size_t{1} << 62U;  // to the end
  std::size_t repeat = 1;
  std::size_t buffer_bytes = std::size_t{32} << 20U;
  std::size_t max_spans = std::size_t{1} << 16U;
  bool runtime_calls = true;
  bool whole_graphs = false;
  char const* library = nullptr;
};

inline constexpr std::uint32_t no_entry = ~std::uint32_t{0};  // no index

/// Texts by number, each once.
class name_table {
 public:
  std::uint32_t number_of(char const* text);
  [[nodiscard]] std::string const& operator[](std::uint32_t number) const { return names_[number]; }

 private:
  std::vector<std::string> names_;
  address_map numbers_;  // by the hash of the name
};

/// Work of a stream.
struct traced_operation {
  activity_kind kind;
  activity_copy direction;
  bool pageable;
  bool launched_before;  // the window: busy time, and nothing else
  std::uint32_t device, stream, correlation;
  std::uint32_t name;  // of a kernel: mangled; of a graph: its id
  std::uint32_t window;
  std::uint32_t call;               // index in calls
  std::uint32_t span;               // index in spans
  std::uint64_t begin, end, bytes;  // of a kernel: blocks
};

struct traced_call {
  std::uint32_t name, thread, correlation;
  bool launches;  // an operation
  bool outside;   // of the window
  bool waits;     // for the device
  std::uint64_t begin, end;
};

struct traced_span {
  std::uint32_t name, thread;
  std::uint32_t outer;  // index in spans
  bool on_stream;
  std::uint64_t begin, end;
};

struct traced_step {
  std::uint32_t thread;
  std::size_t number;  // of the program's steps, from 0
  std::uint64_t begin, end;
};

struct traced_window {
  std::uint64_t begin, end;
};

/// A moment on both clocks.
struct clock_pair {
  std::uint64_t ours, theirs;
};

struct trace_core {
  enum class phase { off, warming_up, recording, finished };

  trace_core(trace_values const& chosen, activity_functions const* functions);
  ~trace_core();

  void begin_step();
  void end_step();
  void finish();

  trace_values values;
  owning_process process;
  activity_functions functions{};
  std::string unavailable;
  bool records_activity = false;
  bool owns_buffers = false;  // and the store of spans

  phase now = phase::off;
  std::size_t next_step = 0;
  clock_pair window_begin{};
  span_store* store = nullptr;

  name_table names;
  array<traced_operation> operations;  // after finish(): by window, device and begin
  array<traced_call> calls;            // after finish(): by begin
  array<traced_span> spans;            // after finish(): by thread and begin
  array<traced_step> steps;
  array<traced_window> windows;
  std::size_t dropped_records = 0;
  std::size_t dropped_spans = 0;

 private:
  void enable(bool on);  // CUPTI's records, but those of whole graphs
  void begin_window();
  void end_window();
  [[nodiscard]] clock_pair read_clocks() const;
  void read_buffers(clock_pair from, clock_pair to);
  void read_record(void const* record, clock_pair from, double scale);
  void read_spans();
  void connect();
};

}  // namespace detail

WARPWRIGHT_END
