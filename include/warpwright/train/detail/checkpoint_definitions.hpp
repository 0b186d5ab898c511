// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/train/checkpoint.hpp>

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/device/device_scope.hpp>
#include <warpwright/core/detail/thread/event_count.hpp>
#include <warpwright/core/detail/thread/process_bound.hpp>
#include <warpwright/core/detail/thread/thread.hpp>
#include <warpwright/memory/pinned.hpp>
#include <warpwright/train/detail/checkpoint_folder.hpp>

WARPWRIGHT_BEGIN

namespace detail {

/// Who saves: the caller enqueues copies to the slots of a ring, a thread writes them to the file.
class checkpoint_core : noncopyable {
 public:
  checkpoint_core(std::string folder, checkpoint_values values, source_location where)
      : values_{std::move(values)},
        operations_{values_.files == nullptr ? stdio_operations : *values_.files},
        folder_{std::move(folder), operations_},
        copies_{where},
        copied_{where} {
    check(cudaGetDevice(&device_), "cudaGetDevice", where);
    copied_.record(copies_.get(), where);
  }
  ~checkpoint_core() {
    stop_.store(true, memory_order::release);
    changes_.notify();
    thread_.join();
    relaxed_capture_mode const relaxed;
    discard(cudaEventSynchronize(copied_.get()));
  }
  [[nodiscard]] owning_process const& process() const noexcept { return process_; }

  std::uint64_t restore(tensor_list const& state, source_location where) {
    wait_for(started_);
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize", where);
    reserve(state.bytes(), where);
    for (int attempt = 1;; ++attempt) {
      skipped_.clear();
      damaged_.clear();
      unreadable_.clear();
      array<std::uint64_t> steps;
      int const error = folder_.find_steps(steps);
      if (error == ENOENT) return 0;
      if (error == 0 && steps.empty()) {
        report_what_has_no_manifest();
        return 0;
      }
      if (error != 0) {
        throw checkpoint_error{"checkpoint_writer: cannot read the folder '" + folder_.path() +
                               "': " + std::strerror(error)};
      }
      std::uint64_t step = 0;
      bool vanished = false;
      if (try_all(steps, state, step, vanished, where)) return step;
      if (vanished && attempt < 5) continue;  // a run removes the oldest meanwhile
      throw checkpoint_error{"checkpoint_writer: no checkpoint in '" + folder_.path() +
                             "' can be used; to begin anew give another folder\n" + skipped_};
    }
  }
  [[nodiscard]] std::string const& skipped() const noexcept { return skipped_; }

  std::uint64_t save(std::uint64_t step, stream_ref stream, tensor_list const& state,
                     source_location where) {
    if (is_capturing(stream, where)) {
      throw_invalid_argument(
          "checkpoint_writer: the stream is capturing; save between the replays of a graph", where);
    }
    relaxed_capture_mode const relaxed;  // another stream may be capturing
    wait_for(started_);
    {
      unique_lock<mutex> const lock{mutex_};  // another thread may ask a pending_save
      failures_.reserve(failures_.size() + 1);
    }
    std::uint64_t const number = ++started_;
    try {
      copied_.synchronize(where);  // of a save that failed before its copies had completed
      step_ = step;
      header_ = safetensors_header(state, step, order_);
      bytes_ = state.bytes();
      reserve(bytes_, where);
      start();
    } catch (std::exception const& e) {
      finish(number, e.what());
      return number;
    }
    enqueued_.store(0, memory_order::relaxed);
    written_.store(0, memory_order::relaxed);
    failed_.store(false, memory_order::relaxed);
    job_.store(number, memory_order::release);
    changes_.notify();
    try {
      enqueue(stream, state, where);
    } catch (std::exception const& e) {
      discard(cudaStreamSynchronize(values_.beside ? copies_.get() : stream.get()));
      try {
        reason_ = e.what();
      } catch (std::bad_alloc const&) {
        reason_ = "no memory";  // short: it is stored in place
      }
      failed_.store(true, memory_order::release);
      changes_.notify();
    }
    return number;
  }

  void before_update(stream_ref stream, source_location where) {
    if (!values_.beside) return;
    unsigned const flags = is_capturing(stream, where) ? cudaEventWaitExternal : 0U;
    check(cudaStreamWaitEvent(stream.get(), copied_.get(), flags), "cudaStreamWaitEvent", where);
  }

  [[nodiscard]] bool done(std::uint64_t number) const noexcept {
    return finished_.load(memory_order::acquire) >= number;
  }
  void wait_for(std::uint64_t number) noexcept {
    wait_until([&] { return done(number); });
  }
  [[nodiscard]] bool succeeded(std::uint64_t number) noexcept {
    wait_for(number);
    unique_lock<mutex> const lock{mutex_};
    for (std::uint64_t const n : failures_) {
      if (n == number) return false;
    }
    return true;
  }
  [[nodiscard]] std::string error() {
    unique_lock<mutex> const lock{mutex_};
    return error_;
  }

 private:
  bool try_all(array<std::uint64_t> const& steps, tensor_list const& state, std::uint64_t& restored,
               bool& vanished, source_location where) {
    for (std::uint64_t const step : steps) {
      try {
        read(step, state, where);
        restored = step;
        if (!skipped_.empty()) {
          report("checkpoint_writer: went on from step " + std::to_string(step) +
                 ", and not from a later one\n" + skipped_);
        }
        return true;
      } catch (checkpoint_folder::newer_version) {
        throw checkpoint_error{"checkpoint_writer: '" +
                               folder_.path(checkpoint_folder::stem(step)) +
                               ".manifest' is of a newer version of warpwright; update, or give "
                               "another folder"};
      } catch (unreadable_file const& e) {
        vanished = vanished || e.error == ENOENT;
        pass_over(step, e.what(), unreadable_);
      } catch (checkpoint_error const& e) {
        pass_over(step, e.what(), damaged_);
      }
    }
    return false;
  }
  void pass_over(std::uint64_t step, std::string const& why, array<std::uint64_t>& steps) {
    skipped_ += "step " + std::to_string(step) + ": " + why + '\n';
    steps.push_back(step);
  }
  void report_what_has_no_manifest() {
    using kind = checkpoint_folder::kind;
    static_cast<void>(
        folder_.for_each_file([&](std::string const& name, std::uint64_t step, kind k) {
          if (k == kind::data) {
            pass_over(step, "'" + name + "' has no manifest, as where its save was cut off",
                      unreadable_);
          }
        }));
    if (!skipped_.empty()) report("checkpoint_writer: begins at step 0\n" + skipped_);
  }
  void read(std::uint64_t step, tensor_list const& state, source_location where) {
    checkpoint_folder::manifest const m = folder_.read_manifest(step);
    safetensors_file file{operations_, folder_.path(m.file)};
    if (file.bytes() != m.bytes) {
      file.fail("has " + std::to_string(file.bytes()) + " bytes, its manifest says " +
                std::to_string(m.bytes));
    }
    if (file.checksum(ring_, ring_bytes_) != m.crc) {
      file.fail("has another CRC-32C than its manifest says");
    }
    array<std::uint64_t> offsets;
    file.find(state, true, offsets, where);
    file.copy(state, offsets, copies_.ref(), ring_, ring_bytes_, where);
  }

  // Page-locks the ring; a smaller one where the system has no memory for it.
  void reserve(std::size_t bytes, source_location where) {
    std::size_t wanted = values_.ring != 0 && values_.ring < bytes ? values_.ring : bytes;
    if (wanted < least_ring) wanted = least_ring;
    if (ring_bytes_ >= wanted || (short_of_memory_ && ring_ != nullptr)) return;
    copied_.synchronize(where);
    free_ring();
    slots_.clear();
    while (ring_ == nullptr) {
      slot_bytes_ = (wanted / most_slots + 4095) / 4096 * 4096;
      std::size_t const slot_count = (wanted + slot_bytes_ - 1) / slot_bytes_;
      try {
        ring_ =
            static_cast<unsigned char*>(memory_.allocate(slot_count * slot_bytes_, 4096, where));
        ring_bytes_ = slot_count * slot_bytes_;
        while (slots_.size() != slot_count) slots_.emplace_back(slot_flags, where);
      } catch (std::bad_alloc const&) {
        free_ring();
        slots_.clear();
        short_of_memory_ = true;
        wanted /= 2;
        if (wanted < least_ring) throw;
      } catch (...) {
        free_ring();
        throw;
      }
    }
  }
  void free_ring() {
    if (ring_ != nullptr) memory_.deallocate(ring_, ring_bytes_);
    static_cast<void>(memory_.trim());
    ring_ = nullptr;
    ring_bytes_ = 0;
  }

  void start() {
    if (thread_.joinable()) return;
    int const error = thread_.start<&checkpoint_core::run>(*this);
    if (error != 0) {
      throw checkpoint_error{std::string{"cannot start a thread: "} + std::strerror(error)};
    }
  }

  void enqueue(stream_ref stream, tensor_list const& state, source_location where) {
    stream_ref const on = values_.beside ? copies_.ref() : stream;
    if (values_.beside) on.wait(stream, where);
    std::size_t position = 0;
    auto const publish = [&] {
      std::size_t const slot = (position - 1) / slot_bytes_;
      slots_[slot % slots_.size()].record(on.get(), where);
      enqueued_.store(slot + 1, memory_order::release);
      changes_.notify();
    };
    for (std::size_t first = 0, last = 0; first != order_.size(); first = last) {
      // Neighbours in memory are copied at once: a copy takes the host 2 us.
      auto const* from = static_cast<unsigned char const*>(state[order_[first]].data);
      std::size_t left = 0;
      for (; last != order_.size() && state[order_[last]].data == from + left; ++last) {
        left += state[order_[last]].bytes();
      }
      while (left != 0) {
        std::size_t const within = position % slot_bytes_;
        if (within == 0) wait_for_slot(position / slot_bytes_);
        std::size_t const n = left < slot_bytes_ - within ? left : slot_bytes_ - within;
        copy(ring_ + position % ring_bytes_, from, n, on, state, first, last, where);
        position += n;
        from += n;
        left -= n;
        if (position % slot_bytes_ == 0) publish();
      }
    }
    if (position % slot_bytes_ != 0) publish();
    copied_.record(on.get(), where);
  }
  // Copies a part of the tensors order_[first] to order_[last - 1].
  void copy(unsigned char* to, unsigned char const* from, std::size_t bytes, stream_ref on,
            tensor_list const& state, std::size_t first, std::size_t last, source_location where) {
    cudaError_t const status = copy_async(to, from, bytes, cudaMemcpyDefault, on.get());
    if (status != cudaErrorInvalidValue || last - first < 2) {
      check(status, "cudaMemcpyAsync", where);
      return;
    }
    discard(status);  // they are in allocations of their own
    for (; first != last; ++first) {
      tensor const& t = state[order_[first]];
      auto const* const begin = static_cast<unsigned char const*>(t.data);
      auto const* const end = begin + t.bytes();
      auto const* const part = begin < from ? from : begin;
      auto const* const part_end = end < from + bytes ? end : from + bytes;
      if (part < part_end) {
        copy(to + (part - from), part, static_cast<std::size_t>(part_end - part), on, state, first,
             first + 1, where);
      }
    }
  }
  void wait_for_slot(std::size_t slot) noexcept {
    wait_until([&] { return slot < written_.load(memory_order::acquire) + slots_.size(); });
  }
  template <class Condition>
  void wait_until(Condition const& condition) noexcept {
    for (;;) {
      std::uint64_t const seen = changes_.count();
      if (condition()) return;
      changes_.wait(seen);
    }
  }

  void run() noexcept {
    static_cast<void>(set_up_thread(device_));
    for (std::uint64_t last = 0, job = 0;; last = job) {
      wait_until([&] {
        job = job_.load(memory_order::acquire);
        return job != last || stop_.load(memory_order::acquire);
      });
      if (job == last) return;
      auto const end = [&](char const* problem) {
        written_.store(std::size_t{1} << 62U, memory_order::release);  // copies wait for nothing
        changes_.notify();
        finish(job, problem);
      };
      try {
        write();
        end(nullptr);
      } catch (std::exception const& e) {
        end(e.what());
      }
    }
  }

  void write() {
    folder_.lock();
    array<std::uint64_t> steps;
    int error = folder_.find_steps(steps);
    if (error != 0) fail(error);
    for (std::uint64_t const later : steps) {
      if (later > step_ && !checkpoint_folder::contains(damaged_, later) &&
          !checkpoint_folder::contains(unreadable_, later)) {
        throw checkpoint_error{(text{"the folder has a checkpoint of step "} + later +
                                ", which is later; call restore() first, or give another folder")
                                   .c_str()};
      }
    }
    bool const replaces = checkpoint_folder::contains(steps, step_);
    std::string const stem = checkpoint_folder::stem(step_);
    new_file file{operations_};
    error = file.open(folder_.path(stem).c_str());
    if (error != 0) fail(error);
    file_writer writer{file.get(), operations_};
    checkpoint_folder::manifest m;
    std::uint32_t crc = crc32c(header_.data(), header_.size());
    writer.write(header_.data(), header_.size());
    for (std::size_t done = 0, slot = 0; done != bytes_; ++slot) {
      wait_for_copies(slot);
      unsigned char const* const from = ring_ + slot % slots_.size() * slot_bytes_;
      std::size_t const n = bytes_ - done < slot_bytes_ ? bytes_ - done : slot_bytes_;
      crc = crc32c(from, n, crc);
      writer.write(from, n);
      done += n;
      written_.store(slot + 1, memory_order::release);
      changes_.notify();
    }
    if (failed_.load(memory_order::acquire)) throw checkpoint_error{reason_};
    m.bytes = header_.size() + bytes_;
    m.crc = crc;
    char digits[16];
    static_cast<void>(std::snprintf(digits, sizeof digits, ".%08x", crc));
    m.file = stem + digits + ".safetensors";
    error = file.commit(writer, folder_.path(m.file).c_str(), true);
    if (error != 0) fail(error);
    std::string const manifest = checkpoint_folder::manifest_text(step_, m);
    error = folder_.sync();
    if (error == 0) {
      error = write_file(folder_.path(stem + ".manifest").c_str(), manifest.data(), manifest.size(),
                         operations_, true);
    }
    if (error != 0) {
      if (!replaces) folder_.remove(m.file);  // otherwise it may be the file of before
      fail(error);
    }
    error = folder_.sync();
    if (error != 0) fail(error);
    folder_.rotate(step_, m.file, values_.kept, damaged_);
    damaged_.clear();
  }
  [[noreturn]] void fail(int error) const {
    throw checkpoint_error{"cannot write to '" + folder_.path() + "': " + std::strerror(error) +
                           (error == ENOSPC || error == EDQUOT ? "; make room" : "")};
  }
  void wait_for_copies(std::size_t slot) {
    wait_until([&] {
      return failed_.load(memory_order::acquire) || slot < enqueued_.load(memory_order::acquire);
    });
    if (failed_.load(memory_order::acquire)) throw checkpoint_error{reason_};
    slots_[slot % slots_.size()].synchronize();
  }

  // @param problem  null: none. No string, for which there may be no memory
  void finish(std::uint64_t number, char const* problem) noexcept {
    if (problem != nullptr) {
      unique_lock<mutex> lock{mutex_};
      failures_.push_back(number);  // reserved
      try {
        error_ = "checkpoint_writer: step " + std::to_string(step_) + " is not saved: " + problem +
                 "; the training goes on";
        std::string const text = error_;
        lock.unlock();
        report(text);
      } catch (std::bad_alloc const&) {  // wait() tells
      }
    }
    finished_.store(number, memory_order::release);
    changes_.notify();
  }
  void report(std::string const& text) const {
    if (values_.on_failure) {
      values_.on_failure(text);
    } else {
      std::fprintf(stderr, "warpwright: %s\n", text.c_str());
    }
  }

  // Each has an event: behind some 50 of them that have not completed, enqueuing blocks.
  static constexpr std::size_t most_slots = 16;
  static constexpr std::size_t least_ring = 16384;
  static constexpr unsigned slot_flags = cudaEventDisableTiming | cudaEventBlockingSync;

  owning_process process_;
  checkpoint_values values_;
  file_operations const& operations_;
  checkpoint_folder folder_;
  int device_ = 0;
  stream copies_;
  event copied_;  // of the last save
  pinned_pool memory_{pinned_pool_options{}.growth_bytes(least_ring)};
  unsigned char* ring_ = nullptr;
  std::size_t ring_bytes_ = 0;
  std::size_t slot_bytes_ = 0;
  bool short_of_memory_ = false;
  array<event_handle> slots_;
  std::string skipped_;
  array<std::uint64_t> damaged_;     // found by restore(): the next save removes them
  array<std::uint64_t> unreadable_;  // these stay

  // The save under way: written before job_, and by the thread.
  std::uint64_t step_ = 0;
  std::string header_;
  array<std::size_t> order_;
  std::size_t bytes_ = 0;
  std::string reason_;  // before failed_

  std::uint64_t started_ = 0;
  atomic<std::uint64_t> job_;
  atomic<std::uint64_t> finished_;
  atomic<std::size_t> enqueued_;  // slots
  atomic<std::size_t> written_;
  atomic<bool> failed_;
  atomic<bool> stop_;
  event_count changes_;
  mutex mutex_;
  array<std::uint64_t> failures_;
  std::string error_;
  thread thread_;
};

}  // namespace detail

WARPWRIGHT_INLINE bool pending_save::done() const noexcept { return core_->done(number_); }
WARPWRIGHT_INLINE bool pending_save::wait() const noexcept { return core_->succeeded(number_); }

WARPWRIGHT_COLD WARPWRIGHT_INLINE checkpoint_writer::checkpoint_writer(
    std::string folder, checkpoint_options const& options, source_location where) {
  auto const& values = values_of(options);
  if (folder.empty()) {
    detail::throw_invalid_argument("checkpoint_writer: the folder has no name", where);
  }
  if (values.kept == 0) {
    detail::throw_invalid_argument("checkpoint_options: keep(0) would keep none; give 1 or more",
                                   where);
  }
  if (values.ring != 0 && values.ring < 16384) {
    detail::throw_invalid_argument(detail::text{"checkpoint_options: a ring of "} + values.ring +
                                       " bytes; give 16 KiB or more",
                                   where);
  }
  core_ = new detail::checkpoint_core{std::move(folder), values, where};
}
// A child of fork() has neither the thread nor CUDA.
WARPWRIGHT_INLINE checkpoint_writer::~checkpoint_writer() {
  if (core_->process().is_current()) delete core_;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::uint64_t checkpoint_writer::restore(tensor_list const& state,
                                                                           source_location where) {
  return core_->restore(state, where);
}
WARPWRIGHT_INLINE std::string const& checkpoint_writer::skipped() const noexcept {
  return core_->skipped();
}
WARPWRIGHT_COLD WARPWRIGHT_INLINE pending_save checkpoint_writer::save(std::uint64_t step,
                                                                       stream_ref stream,
                                                                       tensor_list const& state,
                                                                       source_location where) {
  return {*core_, core_->save(step, stream, state, where)};
}
WARPWRIGHT_INLINE void checkpoint_writer::before_update(stream_ref stream, source_location where) {
  core_->before_update(stream, where);
}
WARPWRIGHT_COLD WARPWRIGHT_INLINE std::string checkpoint_writer::error() const {
  return core_->error();
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void read_safetensors(std::string const& path, stream_ref stream,
                                                        tensor_list const& into,
                                                        source_location where) {
  detail::safetensors_file file{detail::stdio_operations, path};
  detail::array<std::uint64_t> offsets;
  file.find(into, false, offsets, where);
  constexpr std::size_t bytes = std::size_t{8} << 20U;
  pinned_pool memory{pinned_pool_options{}.growth_bytes(bytes)};
  auto* const buffer = static_cast<unsigned char*>(memory.allocate(bytes, 4096, where));
  file.copy(into, offsets, stream, buffer, bytes, where);
}

WARPWRIGHT_END
