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

#include <warpwright/tune/detail/store/store_file.hpp>
#include <warpwright/tune/detail/store/store_line.hpp>
#include <warpwright/tune/tuning_record.hpp>

#include <exception>
#include <string>
#include <utility>
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

inline constexpr std::size_t max_store_warnings = 100;

/// Collects the warnings about one file; of a file that is no store at all, not one for each line.
template <class String>
class store_warnings {
 public:
  store_warnings(String const& path, std::vector<String>& texts) noexcept
      : path_{path}, texts_{texts} {}
  void add(std::size_t line, line_problem problem) {
    if (++count_ > max_store_warnings) return;
    texts_.push_back(string_builder{path_} + ":" + line + ": this line " + problem.text +
                     problem.field + "; it was skipped, and is kept");
  }
  /// Says how many lines there were that are not in the list.
  void finish() {
    if (count_ <= max_store_warnings) return;
    texts_.push_back(string_builder{path_} + ": " + (count_ - max_store_warnings) +
                     " more lines were skipped; is it the file of a tuning_store?");
  }

 private:
  String const& path_;
  std::vector<String>& texts_;
  std::size_t count_ = 0;
};

/// Drivers differ in how much of a device's memory they reserve, boards by more than this: 2 %.
constexpr bool is_same_memory(std::size_t a, std::size_t b) noexcept {
  return a < b ? b - a <= b / 50 : a - b <= a / 50;
}

template <class Key>
tuning_match match_of(Key const& stored, Key const& wanted) {
  // The rest of the keys is equal: encode_key_start().
  if (!is_same_memory(stored.device_memory_bytes, wanted.device_memory_bytes)) {
    return tuning_match::none;
  }
  bool const exact = stored.device_memory_bytes == wanted.device_memory_bytes &&
                     stored.driver_version == wanted.driver_version &&
                     stored.runtime_version == wanted.runtime_version &&
                     stored.library_version == wanted.library_version;
  return exact ? tuning_match::exact : tuning_match::prior;
}

template <class Key>
void check_tuning_key(Key const& key, source_location where) {
  if (key.tag.empty()) {
    throw_invalid_argument(
        "tuning_store: the key's tag is empty; name the workload, as another one's result would "
        "be found",
        where);
  }
}

template <class Record>
WARPWRIGHT_NOINLINE void check_tuning_record(Record const& record, source_location where) {
  check_tuning_key(record.key, where);
  auto const check_figure = [where](char const* name, double value) {
    if (value >= 0.0 && value <= DBL_MAX) return;
    throw_invalid_argument(text{"tuning_store: "} + name + " is " + value +
                               "; it must be finite and not negative (0: not known)",
                           where);
  };
  check_figure("items_per_second", record.items_per_second);
  check_figure("latency_median_seconds", record.latency_median_seconds);
  check_figure("latency_p99_seconds", record.latency_p99_seconds);
  for (auto const& point : record.points) {
    check_figure("the median_seconds of a point", point.median_seconds);
    check_figure("the p99_seconds of a point", point.p99_seconds);
  }
  auto const part_of = [](std::string const& value) {
    return line_part{value.data(), value.data() + value.size()};
  };
  for (auto const& field : record.fields) {
    if (is_field_name(part_of(field.name))) continue;
    throw_invalid_argument(text{"tuning_store: '"} + field.name.c_str() +
                               "' cannot be the name of a field; it must be 1 to 64 letters, "
                               "digits, '_', '-' or '.'",
                           where);
  }
  if (!record.date.empty() && !is_date(part_of(record.date))) {
    throw_invalid_argument(text{"tuning_store: the date is '"} + record.date.c_str() +
                               "'; it must be as 2026-11-23T20:44:07Z, or empty for now",
                           where);
  }
}

/// The steps of put(), with functions that tests replace.
template <class Record>
WARPWRIGHT_COLD_ENTRY std::vector<std::string> put_record(std::string const& path,
                                                          double timeout_seconds,
                                                          Record const& record,
                                                          file_operations const& operations,
                                                          source_location where) {
  if (!(timeout_seconds >= 0.0)) {
    throw_invalid_argument(text{"tuning_store: a lock_timeout of "} + timeout_seconds +
                               " seconds; it must be at least 0",
                           where);
  }
  check_tuning_record(record, where);
  std::string const line = encode_record(record);
  if (line.size() > max_line_bytes) {
    throw_invalid_argument(text{"tuning_store: the record has "} + line.size() +
                               " bytes, the limit of a line is " + max_line_bytes +
                               "; store fewer points or shorter texts",
                           where);
  }
  std::string const key = encode_key(record.key);
  std::string const file = resolve_links(path, where);
  store_lock<> const lock{file, timeout_seconds, where};
  remove_temporaries(file);
  store_content old;
  read_store<>(file, old, where);

  std::vector<std::string> texts;
  store_warnings<std::string> warnings{path, texts};
  std::string next;
  next.reserve(old.size + line.size() + 200);
  if (old.size == 0) {
    next.append(
        "# Results of tunes by warpwright, a record a line. Delete the file to tune again.\n");
  }
  char const* kept = old.bytes.begin();  // up to here all that stays is in `next`
  Record replaced;
  for_each_line(kept, old.size, [&](line_part part, std::size_t number) {
    bool const same_key = part.starts_with(key.data(), key.size());
    line_problem const problem = same_key ? decode_record(part, replaced) : check_line(part);
    if (problem) {
      warnings.add(number, problem);
    } else if (same_key) {
      next.append(kept, static_cast<std::size_t>(part.begin - kept));
      kept = part.end == old.bytes.begin() + old.size ? part.end : part.end + 1;
    }
  });
  warnings.finish();
  if (old.size != 0) {
    next.append(kept, static_cast<std::size_t>(old.bytes.begin() + old.size - kept));
  }
  if (!next.empty() && next.back() != '\n') next += '\n';
  next.append(line);
  next += '\n';
  if (next.size() > max_store_bytes) {
    throw_store_error<>(where, "cannot replace (it is unchanged)", file,
                        "remove lines that are not needed any more, or delete the file",
                        ": with this record it would be larger than 64 MiB");
  }
  replace_store<>(file, next.data(), next.size(), operations, where);
  return texts;
}

template <class Key>
WARPWRIGHT_COLD_ENTRY tuning_lookup find_record(std::string const& path, Key const& key,
                                                source_location where) {
  check_tuning_key(key, where);
  store_content content;
  read_store<>(path, content, where);
  std::string const start = encode_key_start(key);
  tuning_lookup found;
  store_warnings<std::string> warnings{path, found.warnings};
  tuning_record record;
  for_each_line(content.bytes.begin(), content.size, [&](line_part line, std::size_t number) {
    bool const candidate = line.starts_with(start.data(), start.size());
    line_problem const problem = candidate ? decode_record(line, record) : check_line(line);
    if (problem) {
      warnings.add(number, problem);
    } else if (candidate) {
      tuning_match const match = match_of(record.key, key);
      // Of several equally good ones the last is the newest.
      if (match == tuning_match::none || match < found.match) return;
      found.match = match;
      found.record = std::move(record);
    }
  });
  warnings.finish();
  return found;
}

template <class Record>
WARPWRIGHT_COLD_ENTRY tuning_records read_records(std::string const& path, source_location where) {
  store_content content;
  read_store<>(path, content, where);
  tuning_records all;
  store_warnings<std::string> warnings{path, all.warnings};
  for_each_line(content.bytes.begin(), content.size, [&](line_part line, std::size_t number) {
    Record record;
    if (line_problem const problem = decode_record(line, record)) {
      warnings.add(number, problem);
    } else {
      all.records.push_back(std::move(record));
    }
  });
  warnings.finish();
  return all;
}

}  // namespace detail

/// Results of tunes in one text file, a record a line, shared by any number of threads and
/// processes.
///
/// On NFS the lock holds between hosts only where the mount has locks (not `nolock` or
/// `local_lock`). Without them writers of two hosts can lose each other's records; the file itself
/// is whole even then.
///
/// A writer takes a lock ("path.lock", a file that stays), writes a new file beside the old one,
/// and renames it. So readers need no lock and see the old content or the new one, also when a
/// writer is killed; temporary files that it left are removed by the next put(). The file keeps its
/// permissions, and where the system allows it its owner; a symbolic link stays one, and the file
/// that it names is replaced. Of several hard links only the one named stays the store's.
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
  explicit tuning_store(std::string path, source_location where = source_location::current())
      : path_{std::move(path)} {
    if (path_.empty() || path_.back() == '/' || path_.find('\0') != std::string::npos) {
      detail::throw_invalid_argument(detail::text{"tuning_store: '"} + path_.c_str() +
                                         "' is not the path of a file; it must not be empty, end "
                                         "in a slash or contain a zero byte",
                                     where);
    }
  }

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
  template <class Key = tuning_key>
  [[nodiscard]] tuning_lookup find(Key const& key,
                                   source_location where = source_location::current()) const {
    return detail::find_record(path_, key, where);
  }

  /// As find(), but a file that cannot be read is no match with a warning.
  /// @throws std::invalid_argument  for an empty tag
  template <class Key = tuning_key>
  [[nodiscard]] tuning_lookup try_find(Key const& key,
                                       source_location where = source_location::current()) const {
    try {
      return detail::find_record(path_, key, where);
    } catch (std::runtime_error const& error) {
      tuning_lookup none;
      none.warnings.emplace_back(error.what());
      return none;
    }
  }

  /// Reads all records, and checks all of every line.
  /// @return the records and the warnings; both empty if there is no file
  /// @throws std::runtime_error  if the file exists and cannot be read, or is larger than 64 MiB
  ///
  /// **Capture:** legal; no CUDA call. **Cost:** reads and decodes the whole file, without a lock.
  template <class Record = tuning_record>
  [[nodiscard]] tuning_records records(source_location where = source_location::current()) const {
    return detail::read_records<Record>(path_, where);
  }

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
  /// file, writes it again and waits until it is on the disk.
  template <class Record = tuning_record>
  std::vector<std::string> put(Record const& record,
                               source_location where = source_location::current()) const {
    return detail::put_record(path_, timeout_seconds_, record, detail::stdio_operations, where);
  }

  /// As put(), for services that must start without a store as well: returns the text of an
  /// exception.
  template <class Record = tuning_record>
  [[nodiscard]] tuning_put_result try_put(
      Record const& record, source_location where = source_location::current()) const {
    tuning_put_result result;
    try {
      result.warnings = put(record, where);
      result.stored = true;
    } catch (std::exception const& error) {
      result.problem = error.what();
    }
    return result;
  }

 private:
  std::string path_;
  double timeout_seconds_ = 10.0;
};

WARPWRIGHT_END
