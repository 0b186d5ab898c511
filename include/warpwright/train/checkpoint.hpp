// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints that a killed run goes on from: tensors in safetensors files, written beside the
// training.
//
//   ww::checkpoint_writer saver{"run", ww::checkpoint_options{}.keep(3)};
//   for (auto step = saver.restore(state); step < steps; ++step) {  // state: a tensor_list
//     train_step(stream);
//     if ((step + 1) % 1000 == 0) saver.save(step + 1, stream, state);
//   }
#pragma once

#include <warpwright/core/detail/function_ref.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/options.hpp>
#include <warpwright/core/detail/tensors/checkpoint_error.hpp>
#include <warpwright/core/stream.hpp>
#include <warpwright/core/tensor_list.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

WARPWRIGHT_BEGIN

namespace detail {
struct file_operations;
class checkpoint_core;

struct checkpoint_values {
  std::size_t kept = 2;
  std::size_t ring = 0;
  bool beside = false;
  file_operations const* files = nullptr;
  owned_function<void(std::string const&)> on_failure;
};
}  // namespace detail

/// Options of a checkpoint_writer. Every setter returns a changed copy.
class checkpoint_options
    : public detail::options_base<checkpoint_options, detail::checkpoint_values> {
 public:
  /// @param n  checkpoints that stay, the newest, at least 1; default: 2, so that there is another
  ///   one if the newest is damaged
  self keep(std::size_t n) const { return with(&values::kept, n); }
  /// Copies on a stream of the writer's own while the next step computes gradients, until
  /// checkpoint_writer::before_update(). Without it later work of the stream waits for the copies.
  self copy_beside(bool on = true) const { return with(&values::beside, on); }
  /// @param bytes  of page-locked memory between the GPU and the file, at least 16 KiB. Default: as
  ///   the state, as then save() never waits for the disk
  self ring(std::size_t bytes) const { return with(&values::ring, bytes); }
  /// @param function  `void function(std::string const& text)`, called by a thread of the writer or
  ///   by save() when a save failed, and by restore() when it passed over a later checkpoint; must
  ///   not throw or call the writer. Default: writes the text to stderr
  template <class F>
  self on_failure(F function) const {
    self copy = *this;
    copy.values_.on_failure = detail::owned_function<void(std::string const&)>{std::move(function)};
    return copy;
  }
  /// @param operations  for tests; must outlive the writer
  self files(detail::file_operations const& operations) const {
    return with(&values::files, &operations);
  }
};

/// A save that may still be under way.
/// @pre its checkpoint_writer exists
class pending_save {
 public:
  /// @return whether it has ended
  [[nodiscard]] bool done() const noexcept;
  /// Waits until it has ended. @return false: it failed, checkpoint_writer::error() says why
  bool wait() const noexcept;

 private:
  friend class checkpoint_writer;
  pending_save(detail::checkpoint_core& core, std::uint64_t number) noexcept
      : core_{&core}, number_{number} {}
  detail::checkpoint_core* core_;
  std::uint64_t number_;
};

/// Saves a state at steps of a run, and finds the newest that was saved whole.
///
/// A checkpoint is a file `step-000000001000.XXXXXXXX.safetensors`, which Python's safetensors
/// reads, and a manifest `step-000000001000.manifest` with its size and CRC-32C. Both are written
/// under other names, passed to the device (fsync), and renamed, the manifest last: a process that
/// is killed at any time, or a loss of power, leaves the checkpoints of before. The disk needs room
/// for one more than stay.
///
/// A folder is for one run at a time: from its first save() on a writer keeps others from saving
/// there. Files of other names stay as they are.
///
/// @pre the state is neither written, moved nor freed while it is copied: see copy_beside()
/// **Threads:** one at a time. **Device:** that which is current when it is made.
class checkpoint_writer : detail::noncopyable {
 public:
  /// Nothing is read or written yet.
  /// @param folder   created by the first save; its parent exists. A relative one is below the
  ///   current directory of now
  /// @throws std::invalid_argument  for an empty name or an option out of range
  /// @throws cuda_error             when CUDA creates no stream or event
  explicit checkpoint_writer(std::string folder, checkpoint_options const& options = {},
                             source_location where = source_location::current());
  /// Waits for the save under way.
  ~checkpoint_writer();

  /// Reads the newest checkpoint that is whole and undamaged into the state, and page-locks the
  /// memory that saves of it need. All of its file is read before the state is written. It passes
  /// over those that are damaged, which the next save() removes, and those that cannot be read.
  /// @param state  tensors of the names, types and shapes that were saved, in any order
  /// @return its step; 0, and the state is unchanged, where there is none
  /// @throws std::invalid_argument  if its tensors are others: names one
  /// @throws checkpoint_error       if there are checkpoints, but none can be used or the newest is
  ///   of a newer version, or the folder cannot be read
  /// @throws out_of_memory          when nothing can be page-locked
  /// @throws cuda_error             when a copy fails: the state is then undefined
  /// **Stream:** blocks until the device has no work, before and after. **Capture:** not legal.
  std::uint64_t restore(tensor_list const& state,
                        source_location where = source_location::current());
  /// @return why restore() did not take a newer checkpoint, a line for each; empty: it took the
  ///   newest
  [[nodiscard]] std::string const& skipped() const noexcept;

  /// Saves the state as it is behind the earlier work of the stream. A failure, of the disk or of
  /// CUDA, does not throw: the training goes on, the earlier checkpoints stay, and on_failure() and
  /// pending_save::wait() tell.
  /// @param step   how many steps the state has behind it. A checkpoint of the same step is
  ///   replaced; the save fails if there is a later one that restore() did not pass over
  /// @param state  in device memory
  /// @throws std::invalid_argument  if the stream is capturing
  /// @throws std::bad_alloc         when the host has no memory for a number
  /// **Stream:** ordered on `stream`, whose later work waits for the copies unless copy_beside().
  /// **Cost:** a copy for each tensor. Waits on the host for the save before this one, and for the
  /// disk where the ring is smaller than the state.
  pending_save save(std::uint64_t step, stream_ref stream, tensor_list const& state,
                    source_location where = source_location::current());
  /// With copy_beside(): makes later work of the stream wait until the state is copied. Call it in
  /// each step, before what writes the state.
  /// @throws cuda_error  when the call fails
  /// **Stream:** does not block the host. **Capture:** legal: replays wait for the last save().
  void before_update(stream_ref stream, source_location where = source_location::current());

  /// @return why the last save that failed did; empty: none did
  [[nodiscard]] std::string error() const;

 private:
  detail::checkpoint_core* core_;
};

/// Reads tensors from a safetensors file, such as one that Python wrote.
/// @param into  tensors of the file, by their names, types and shapes; the file may have more
/// @throws std::invalid_argument  if the file has one of them not, or of another type or shape
/// @throws checkpoint_error       if the file cannot be read, is truncated or no safetensors file
/// @throws out_of_memory, cuda_error
/// **Stream:** ordered on `stream`; blocks until it is done. **Capture:** not legal.
void read_safetensors(std::string const& path, stream_ref stream, tensor_list const& into,
                      source_location where = source_location::current());

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/train/detail/checkpoint_definitions.hpp>
#endif
