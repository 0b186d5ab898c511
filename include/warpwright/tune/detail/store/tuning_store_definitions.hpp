// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/tune/tuning_store.hpp>

#include <warpwright/tune/detail/store/store_file_definitions.hpp>
#include <warpwright/tune/detail/store/store_line_definitions.hpp>

#include <exception>
#include <string>
#include <utility>
#include <vector>

WARPWRIGHT_BEGIN

namespace detail {

inline constexpr std::size_t max_store_warnings = 100;

/// Collects the warnings about one file; of a file that is no store at all, not one for each line.
class store_warnings {
 public:
  store_warnings(std::string const& path, std::vector<std::string>& texts) noexcept
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
  std::string const& path_;
  std::vector<std::string>& texts_;
  std::size_t count_ = 0;
};

/// Drivers differ in how much of a device's memory they reserve, boards by more than this: 2 %.
constexpr bool is_same_memory(std::size_t a, std::size_t b) noexcept {
  return a < b ? b - a <= b / 50 : a - b <= a / 50;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE tuning_match match_of(tuning_key const& stored,
                                                        tuning_key const& wanted) {
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

WARPWRIGHT_COLD WARPWRIGHT_INLINE void check_tuning_key(tuning_key const& key,
                                                        source_location where) {
  if (key.tag.empty()) {
    throw_invalid_argument(
        "tuning_store: the key's tag is empty; name the workload, as another one's result would "
        "be found",
        where);
  }
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void check_tuning_record(tuning_record const& record,
                                                           source_location where) {
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

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::vector<std::string> put_record(
    std::string const& path, double timeout_seconds, tuning_record const& record,
    file_operations const& operations, source_location where) {
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
  store_lock const lock{path, timeout_seconds, where};
  store_content old;
  read_store(path, old, where);

  std::vector<std::string> texts;
  store_warnings warnings{path, texts};
  std::string next;
  next.reserve(old.size + line.size() + 200);
  if (old.size == 0) {
    next.append(
        "# Results of tunes by warpwright, a record a line. Delete the file to tune again.\n");
  }
  char const* kept = old.bytes.begin();  // up to here all that stays is in `next`
  tuning_record replaced;
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
    throw_store_error(where, "cannot replace (it is unchanged)", path,
                      "remove lines that are not needed any more, or delete the file",
                      ": with this record it would be larger than 64 MiB");
  }
  int const error = write_file(path.c_str(), next.data(), next.size(), operations);
  if (error != 0) throw_store_error(where, "cannot replace (it is unchanged)", path, error);
  return texts;
}

// 13000 -> "13.0"
WARPWRIGHT_INLINE std::string cuda_version_text(int version) {
  return (text{version / 1000} + "." + version % 1000 / 10).c_str();
}

}  // namespace detail

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE tuning_key tuning_key::of_device(device_id device,
                                                                         source_location where) {
  // Without the clock rates of get_device_info(), whose queries take most of a millisecond.
  cudaDeviceProp const properties = detail::device_properties(device, where);
  int driver = 0;
  int runtime = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion", where);
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion", where);
  tuning_key key;
  key.device = properties.name;
  // "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
  constexpr char mark[] = " MIG ";
  std::size_t const at = key.device.find(mark);
  if (at != std::string::npos) {
    key.mig_profile.assign(key.device, at + sizeof mark - 1, std::string::npos);
    key.device.resize(at);
  }
  key.device_memory_bytes = properties.totalGlobalMem;
  key.driver_version = detail::cuda_version_text(driver);
  key.runtime_version = detail::cuda_version_text(runtime);
  key.library_version = (detail::text{WARPWRIGHT_VERSION_MAJOR} + "." + WARPWRIGHT_VERSION_MINOR +
                         "." + WARPWRIGHT_VERSION_PATCH)
                            .c_str();
  return key;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE std::string const* tuning_record::field(
    char const* name) const noexcept {
  for (tuning_field const& f : fields) {
    if (f.name.compare(name) == 0) return &f.value;
  }
  return nullptr;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE tuning_store::tuning_store(std::string path,
                                                                   source_location where)
    : path_{std::move(path)} {
  if (path_.empty() || path_.back() == '/' || path_.find('\0') != std::string::npos) {
    detail::throw_invalid_argument(detail::text{"tuning_store: '"} + path_.c_str() +
                                       "' is not the path of a file; it must not be empty, end "
                                       "in a slash or contain a zero byte",
                                   where);
  }
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE tuning_lookup
tuning_store::find(tuning_key const& key, source_location where) const {
  detail::check_tuning_key(key, where);
  detail::store_content content;
  detail::read_store(path_, content, where);
  std::string const start = detail::encode_key_start(key);
  tuning_lookup found;
  detail::store_warnings warnings{path_, found.warnings};
  tuning_record record;
  detail::for_each_line(
      content.bytes.begin(), content.size, [&](detail::line_part line, std::size_t number) {
        bool const candidate = line.starts_with(start.data(), start.size());
        detail::line_problem const problem =
            candidate ? detail::decode_record(line, record) : detail::check_line(line);
        if (problem) {
          warnings.add(number, problem);
        } else if (candidate) {
          tuning_match const match = detail::match_of(record.key, key);
          // Of several equally good ones the last is the newest.
          if (match == tuning_match::none || match < found.match) return;
          found.match = match;
          found.record = std::move(record);
        }
      });
  warnings.finish();
  return found;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE tuning_lookup
tuning_store::try_find(tuning_key const& key, source_location where) const {
  try {
    return find(key, where);
  } catch (std::runtime_error const& error) {
    tuning_lookup none;
    none.warnings.push_back(std::string{error.what()});
    return none;
  }
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE tuning_records
tuning_store::records(source_location where) const {
  detail::store_content content;
  detail::read_store(path_, content, where);
  tuning_records all;
  detail::store_warnings warnings{path_, all.warnings};
  detail::for_each_line(
      content.bytes.begin(), content.size, [&](detail::line_part line, std::size_t number) {
        tuning_record record;
        if (detail::line_problem const problem = detail::decode_record(line, record)) {
          warnings.add(number, problem);
        } else {
          all.records.push_back(std::move(record));
        }
      });
  warnings.finish();
  return all;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE std::vector<std::string> tuning_store::put(
    tuning_record const& record, source_location where) const {
  return detail::put_record(path_, timeout_seconds_, record, detail::stdio_operations, where);
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE tuning_put_result
tuning_store::try_put(tuning_record const& record, source_location where) const {
  tuning_put_result result;
  try {
    result.warnings = put(record, where);
    result.stored = true;
  } catch (std::exception const& error) {
    result.problem = error.what();
  }
  return result;
}

WARPWRIGHT_END
