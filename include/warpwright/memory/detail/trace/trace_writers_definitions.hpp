// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/container/address_map.hpp>
#include <warpwright/memory/detail/trace/pickle_writer.hpp>
#include <warpwright/memory/detail/trace/trace_ring.hpp>

#include <cstdlib>
#include <stdexcept>

WARPWRIGHT_BEGIN

namespace detail {

/// Flushes a writer.
/// @throws std::runtime_error  for a failed write, with the system's reason
WARPWRIGHT_COLD WARPWRIGHT_INLINE void finish_writing(file_writer& out, char const* what,
                                                      source_location where) {
  int const error = out.flush();
  if (error == 0) return;
  throw std::runtime_error{(text{where.file(), where.line()} + ": trace_recorder: the " + what +
                            " cannot be written: " + std::strerror(error))
                               .c_str()};
}

/// The number of a key: how many keys were before it.
WARPWRIGHT_COLD WARPWRIGHT_INLINE std::uint32_t number_of(address_map& numbers, std::uint64_t key) {
  std::uint32_t const known = numbers.find(key);
  if (known != address_map::none) return known;
  auto const number = static_cast<std::uint32_t>(numbers.size());
  numbers.reserve(numbers.size() + 1);
  numbers.insert(key, number);
  return number;
}

/// Matches deallocations with allocations.
struct trace_index {
  static constexpr std::uint32_t none = address_map::none;

  /// @throws std::bad_alloc
  WARPWRIGHT_COLD explicit trace_index(array<trace_event> const& of)
      : events{of}, block(of.size()) {
    live.reserve(of.size());
    std::uint64_t live_bytes = 0;
    for (std::size_t i = 0; i < of.size(); ++i) {
      trace_event const& e = of[i];
      static_cast<void>(number_of(streams, e.stream_id));
      block[i] = none;
      std::uint32_t const before = live.erase(e.address);
      if (before != none) live_bytes -= allocation(before).bytes;
      if (e.kind == trace_kind::allocation) {
        block[i] = static_cast<std::uint32_t>(event_of.size());
        live.insert(e.address, block[i]);
        event_of.push_back(i);
        superseded.push_back(before);
        live_bytes += e.bytes;
        if (live_bytes > peak_live_bytes) peak_live_bytes = live_bytes;
        operations += before != none ? 2 : 1;
      } else if (before != none) {
        block[i] = before;
        ++operations;
      } else {
        ++unmatched_frees;
      }
    }
  }

  [[nodiscard]] trace_event const& allocation(std::uint32_t of) const noexcept {
    return events[event_of[of]];
  }
  [[nodiscard]] std::uint32_t stream(trace_event const& e) const noexcept {
    return streams.find(e.stream_id);
  }

  array<trace_event> const& events;
  array<std::uint32_t> block;   // of each event; none: a free whose allocation was not recorded
  array<std::size_t> event_of;  // of each block, its allocation
  array<std::uint32_t>
      superseded;       // of each block, what was live at its address: a free is missing
  address_map live;     // address to block
  address_map streams;  // id to number
  std::uint64_t peak_live_bytes = 0;
  std::uint64_t operations = 0;       // lines of the CSV
  std::uint64_t unmatched_frees = 0;  // without a recorded allocation
};

WARPWRIGHT_INLINE void write_trace_csv(std::FILE* file, array<trace_event> const& events,
                                       std::uint64_t lost, source_location where,
                                       file_operations const& operations) {
  using number = unsigned long long;
  trace_index const index{events};
  file_writer out{file, operations};
  out.print(
      "# {\"recorder\": \"warpwright\", \"ops\": %llu, \"streams\": %llu, "
      "\"peak_live_bytes\": %llu, \"lost_ops\": %llu, \"omitted_frees\": %llu}\n"
      "# op (a=allocate, f=free), block id, bytes, stream index\n",
      static_cast<number>(index.operations), static_cast<number>(index.streams.size()),
      static_cast<number>(index.peak_live_bytes), static_cast<number>(lost),
      static_cast<number>(index.unmatched_frees));
  auto const line = [&](char op, std::uint32_t block, trace_event const& by) {
    out.print("%c,%u,%llu,%u\n", op, block, static_cast<number>(index.allocation(block).bytes),
              index.stream(by));
  };
  for (std::size_t i = 0; i < events.size(); ++i) {
    std::uint32_t const block = index.block[i];
    if (block == trace_index::none) continue;
    bool const allocates = events[i].kind == trace_kind::allocation;
    if (allocates && index.superseded[block] != trace_index::none) {
      line('f', index.superseded[block], events[i]);
    }
    line(allocates ? 'a' : 'f', block, events[i]);
  }
  finish_writing(out, "CSV", where);
}

/// Writes a recorder's calls as the dictionary of torch.cuda.memory._snapshot().
class snapshot_writer {
 public:
  snapshot_writer(std::FILE* file, array<trace_event> const& events, int device,
                  file_operations const& operations)
      : out_{file, operations},
        events_{events},
        index_{events},
        device_{device < 0 ? 0 : device} {}  // host memory has no device, but the viewer needs one

  /// @throws std::runtime_error  when the file cannot be written
  WARPWRIGHT_COLD void write(source_location where) {
    find_segments();
    out_.begin_dict();
    key("segments");
    out_.begin_list();
    std::size_t live = 0;
    for (range const& segment : segments_) {
      write_segment(segment, live);
      out_.next_batch();
    }
    out_.end_list();
    key("device_traces");
    out_.begin_list();
    for (int i = 0; i < device_; ++i) out_.empty_list();
    write_events();
    out_.end_list();
    out_.end_dict();
    out_.end();
    finish_writing(out_.file(), "snapshot", where);
  }

 private:
  struct range {
    std::uint64_t begin;
    std::uint64_t end;
  };
  static constexpr std::uint64_t unit = std::uint64_t{2} << 20U;

  WARPWRIGHT_COLD static int compare(void const* a, void const* b) {
    std::uint64_t const x = static_cast<range const*>(a)->begin;
    std::uint64_t const y = static_cast<range const*>(b)->begin;
    return x < y ? -1 : x > y ? 1 : 0;
  }
  static void sort(array<range>& ranges) {
    if (!ranges.empty()) std::qsort(ranges.begin(), ranges.size(), sizeof(range), &compare);
  }

  // A recorder gets no segments: shows the ranges that blocks cover, rounded to 2 MiB.
  WARPWRIGHT_COLD void find_segments() {
    array<range> covered;
    for (std::size_t i = 0; i < events_.size(); ++i) {
      trace_event const& e = events_[i];
      range const r{e.address / unit * unit, (e.address + e.bytes + unit - 1) / unit * unit};
      if (!covered.empty() && covered.back().begin <= r.begin && r.end <= covered.back().end)
        continue;
      covered.push_back(r);
    }
    sort(covered);
    for (range const& r : covered) {
      if (!segments_.empty() && r.begin <= segments_.back().end) {
        if (r.end > segments_.back().end) segments_.back().end = r.end;
      } else {
        segments_.push_back(r);
      }
    }
    for (std::uint32_t block = 0; block < index_.event_of.size(); ++block) {
      trace_event const& e = index_.allocation(block);
      if (index_.live.find(e.address) == block)
        live_.push_back(range{e.address, e.address + e.bytes});
    }
    sort(live_);
  }

  WARPWRIGHT_COLD void write_segment(range const& segment, std::size_t& next) {
    std::uint64_t live_bytes = 0;
    std::size_t const first = next;
    for (; next < live_.size() && live_[next].begin < segment.end; ++next) {
      live_bytes += live_[next].end - live_[next].begin;
    }
    out_.begin_dict();
    integer_entry("device", static_cast<std::uint64_t>(device_));
    integer_entry("address", segment.begin);
    integer_entry("total_size", segment.end - segment.begin);
    integer_entry("allocated_size", live_bytes);
    integer_entry("active_size", live_bytes);
    integer_entry("requested_size", live_bytes);
    integer_entry("stream", 0);
    string_entry("segment_type", "large");
    key("segment_pool_id");
    out_.integer(0);
    out_.integer(0);
    out_.pair();
    key("is_expandable");
    out_.boolean(false);
    key("frames");
    out_.empty_list();
    key("blocks");
    out_.begin_list();
    std::uint64_t at = segment.begin;
    for (std::size_t i = first; i < next; ++i) {
      if (live_[i].begin < at) continue;  // overlaps: recorded while other threads were running
      if (live_[i].begin > at) write_block(at, live_[i].begin - at, false);
      write_block(live_[i].begin, live_[i].end - live_[i].begin, true);
      at = live_[i].end;
      if ((i - first) % 500 == 499) out_.next_batch();
    }
    if (at < segment.end) write_block(at, segment.end - at, false);
    out_.end_list();
    out_.end_dict();
  }

  WARPWRIGHT_COLD void write_block(std::uint64_t address, std::uint64_t bytes, bool live) {
    out_.begin_dict();
    integer_entry("address", address);
    integer_entry("size", bytes);
    integer_entry("requested_size", live ? bytes : 0);
    string_entry("state", live ? "active_allocated" : "inactive");
    key("frames");
    out_.empty_list();
    out_.end_dict();
  }

  WARPWRIGHT_COLD void write_events() {
    out_.begin_list();
    for (std::size_t i = 0; i < events_.size(); ++i) {
      trace_event const& e = events_[i];
      std::uint32_t const block = index_.block[i];
      if (e.kind == trace_kind::allocation) {
        if (index_.superseded[block] != trace_index::none) {
          write_free(index_.allocation(index_.superseded[block]), e);
        }
        write_event("alloc", e, e);
      } else {
        write_free(block != trace_index::none ? index_.allocation(block) : e, e);
      }
      if (i % 300 == 299) out_.next_batch();
    }
    out_.end_list();
  }
  void write_free(trace_event const& what, trace_event const& by) {
    write_event("free_requested", what, by);
    write_event("free_completed", what, by);
  }
  WARPWRIGHT_COLD void write_event(char const* action, trace_event const& what,
                                   trace_event const& by) {
    out_.begin_dict();
    string_entry("action", action);
    integer_entry("addr", what.address);
    integer_entry("size", what.bytes);
    integer_entry("stream", index_.stream(by));
    integer_entry("time_us", by.time_us);
    key("frames");
    write_frames(by);
    out_.end_dict();
  }

  // The caller's source location as the only frame; one list for each location.
  WARPWRIGHT_COLD void write_frames(trace_event const& by) {
    std::uint64_t const file = number_of(files_, reinterpret_cast<std::uintptr_t>(by.file));
    std::uint64_t const site = file << 33U | static_cast<std::uint64_t>(by.line) << 1U |
                               (by.kind == trace_kind::allocation ? 1U : 0U);
    std::uint32_t const memo = call_sites_.find(site);
    if (memo != address_map::none) {
      out_.get_memo(memo);
      return;
    }
    out_.begin_list();
    out_.begin_dict();
    string_entry("filename", by.file);
    integer_entry("line", static_cast<std::uint64_t>(by.line));
    string_entry("name", by.kind == trace_kind::allocation ? "allocate" : "deallocate");
    out_.end_dict();
    out_.end_list();
    call_sites_.reserve(call_sites_.size() + 1);
    call_sites_.insert(site, out_.put_memo());
  }

  void integer_entry(char const* name, std::uint64_t value) {
    key(name);
    out_.integer(value);
  }
  void string_entry(char const* name, char const* value) {
    key(name);
    key(value);
  }
  // Writes a string literal once and refers to it from then on.
  WARPWRIGHT_COLD void key(char const* name) {
    auto const address = reinterpret_cast<std::uintptr_t>(name);
    std::uint32_t const memo = strings_.find(address);
    if (memo != address_map::none) {
      out_.get_memo(memo);
      return;
    }
    out_.string(name);
    strings_.reserve(strings_.size() + 1);
    strings_.insert(address, out_.put_memo());
  }

  pickle_writer out_;
  array<trace_event> const& events_;
  trace_index index_;
  int device_;
  array<range> segments_;
  array<range> live_;  // blocks
  address_map strings_;
  address_map files_;
  address_map call_sites_;
};

WARPWRIGHT_INLINE void write_trace_snapshot(std::FILE* file, array<trace_event> const& events,
                                            int device, source_location where,
                                            file_operations const& operations) {
  snapshot_writer{file, events, device, operations}.write(where);
}

}  // namespace detail

WARPWRIGHT_END
