// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Keeps the results of tunes in a text file, so that a service does not tune at every start.
//
//   ww::tuning_store const store{"/var/lib/app/tuning.txt"};
//   auto key = ww::tuning_key::of_device(ww::current_device());
//   key.tag = "resnet50-v3";
//   key.objective = "throughput, p99 within 5 ms";
//   auto const stored = store.try_find(key);
//   if (stored.match == ww::tuning_match::exact) return stored.record.batch;
#pragma once

#include <warpwright/tune/detail/store/tuning_record.hpp>

#include <string>
#include <vector>

WARPWRIGHT_BEGIN

/// How well a stored record answers a key.
enum class tuning_match {
  none,   ///< nothing is stored for this device, objective, cap, tag and kind
  prior,  ///< stored with another driver, runtime or library: check three of its points again
  exact,  ///< the whole key is the same: the result can be used as it is
};

/// What find() found.
struct tuning_lookup {
  tuning_match match = tuning_match::none;
  tuning_record record;               ///< the record, with its own key; empty: none
  std::vector<std::string> warnings;  ///< lines that were skipped, as "path:line: reason"
};

/// What records() read.
struct tuning_records {
  std::vector<tuning_record> records;  ///< in the order of the file: the newest is the last
  std::vector<std::string> warnings;   ///< lines that were skipped, as "path:line: reason"
};

/// What try_put() did.
struct tuning_put_result {
  bool stored = false;
  std::string problem;                ///< why it was not stored; empty: it was
  std::vector<std::string> warnings;  ///< lines that are no records, which were kept
};

namespace detail {

struct file_operations;

// 13000 -> "13.0"
std::string cuda_version_text(int version);

/// The steps of put(), with functions that tests replace.
std::vector<std::string> put_record(std::string const& path, double timeout_seconds,
                                    tuning_record const& record, file_operations const& operations,
                                    source_location where);

}  // namespace detail

/// Results of tunes in one text file, a record a line, shared by any number of threads and
/// processes.
///
/// A writer takes a lock ("path.lock", a file that stays, and that NFS has only where the mount has
/// locks), writes a new file beside the old one, and renames it. So readers need no lock and see
/// the old content or the new one, also when a writer is killed, which may leave "path.….tmp".
///
/// Comments ("# …") and lines that are no records are kept as they are; the latter are reported as
/// warnings, never printed. A line has at most 64 KiB, and the file 64 MiB. Linux and other POSIX
/// systems; not Windows.
///
/// A plain value: constructing one does not touch the file.
///
/// **Threads:** any number at once, through one object or several.
class tuning_store {
 public:
  /// @param path  the file's; a relative one is looked up in the working directory of each call.
  ///   It need not exist
  /// @throws std::invalid_argument  for a path that is empty, ends in a slash or has a zero byte
  explicit tuning_store(std::string path, source_location where = source_location::current());

  /// @param seconds  how long put() waits for other writers, at least 0; default 10
  [[nodiscard]] tuning_store lock_timeout(double seconds) const {
    tuning_store copy = *this;
    copy.timeout_seconds_ = seconds;
    return copy;
  }
  /// @return the path that was given
  [[nodiscard]] std::string const& path() const noexcept { return path_; }

  /// Looks a key up.
  ///
  /// A prior may also have another figure of device memory, by up to 2 %, as drivers report it
  /// differently. The newest of several priors counts.
  ///
  /// @param key  with a tag
  /// @return the best match, and a warning for each line that is no record. Lines of other keys are
  ///   checked by their start and end only; records() checks all of every line
  /// @throws std::runtime_error  if the file exists and cannot be read, or is larger than 64 MiB
  /// @throws std::invalid_argument  for an empty tag
  ///
  /// **Capture:** legal; no CUDA call. **Cost:** reads the whole file, without a lock; call it at
  /// start-up.
  [[nodiscard]] tuning_lookup find(tuning_key const& key,
                                   source_location where = source_location::current()) const;

  /// As find(), but a file that cannot be read is no match with a warning.
  /// @throws std::invalid_argument  for an empty tag
  [[nodiscard]] tuning_lookup try_find(tuning_key const& key,
                                       source_location where = source_location::current()) const;

  /// Reads all records, and checks all of every line.
  /// @return the records and the warnings; both empty if there is no file
  /// @throws std::runtime_error  if the file exists and cannot be read, or is larger than 64 MiB
  ///
  /// **Capture:** legal; no CUDA call. **Cost:** reads and decodes the whole file, without a lock.
  [[nodiscard]] tuning_records records(source_location where = source_location::current()) const;

  /// Stores a record in the place of the one with the same key, and keeps all others.
  ///
  /// Creates the file, and the last folder of its path, if they do not exist.
  ///
  /// @param record  with a tag, and figures that are finite and not negative
  /// @return a warning for each line of the file that is no record
  /// @throws std::runtime_error  if another writer holds the lock for longer than lock_timeout(),
  ///   or the file cannot be read or replaced; it is unchanged then
  /// @throws std::invalid_argument  for a record that cannot be a line of the file
  ///
  /// **Capture:** legal; no CUDA call. **Cost:** blocks: waits for other writers, reads the whole
  /// file and writes it again.
  std::vector<std::string> put(tuning_record const& record,
                               source_location where = source_location::current()) const;

  /// As put(), for services that must start without a store as well: returns the text of an
  /// exception.
  [[nodiscard]] tuning_put_result try_put(tuning_record const& record,
                                          source_location where = source_location::current()) const;

 private:
  std::string path_;
  double timeout_seconds_ = 10.0;
};

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/tune/detail/store/tuning_store_definitions.hpp>
#endif
