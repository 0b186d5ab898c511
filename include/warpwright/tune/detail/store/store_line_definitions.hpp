// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/tune/detail/store/store_line.hpp>

#include <cstddef>
#include <cstring>
#include <string>

WARPWRIGHT_BEGIN

namespace detail {

inline constexpr char store_format[] = "warpwright_tuning=1\t";
inline constexpr std::size_t max_field_name = 64;

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::string encode_key_start(tuning_key const& key) {
  std::string line = store_format;
  append_field(line, "kind", key.kind);
  append_field(line, "tag", key.tag);
  append_field(line, "device", key.device);
  append_field(line, "mig", key.mig_profile);
  append_field(line, "objective", key.objective);
  append_field(line, "memory_cap_bytes", key.memory_cap_bytes);
  return line;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::string encode_key(tuning_key const& key) {
  std::string line = encode_key_start(key);
  append_field(line, "device_memory_bytes", key.device_memory_bytes);
  append_field(line, "driver", key.driver_version);
  append_field(line, "runtime", key.runtime_version);
  append_field(line, "library", key.library_version);
  return line;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::string encode_record(tuning_record const& record) {
  std::string line = encode_key(record.key);
  append_field(line, "batch", record.batch);
  append_field(line, "items_per_second", record.items_per_second);
  append_field(line, "latency_median_seconds", record.latency_median_seconds);
  append_field(line, "latency_p99_seconds", record.latency_p99_seconds);
  append_field(line, "memory_bytes", record.memory_bytes);
  // batch:median:p99:bytes,…
  line.append("points=");
  char const* before = "";
  for (auto const& p : record.points) {
    line.append((text{before} + p.batch + ":").c_str());
    append_number(line, p.median_seconds);
    line += ':';
    append_number(line, p.p99_seconds);
    line.append((text{":"} + p.memory_bytes).c_str());
    before = ",";
  }
  line += '\t';
  for (auto const& f : record.fields) append_field(line, ("field." + f.name).c_str(), f.value);
  line.append("date=");
  if (record.date.empty()) {
    append_date_of_now(line);
  } else {
    line.append(record.date);
  }
  return line;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE line_problem check_line(line_part line) noexcept {
  constexpr std::size_t date_length = 20;
  constexpr char last[] = "\tdate=";
  constexpr std::size_t last_length = sizeof last - 1;
  // "warpwright_tuning=", without the version and the tab.
  if (!line.starts_with(store_format, sizeof store_format - 3)) return {"is not a record"};
  if (!line.starts_with(store_format, sizeof store_format - 1)) {
    return {"is not of format 1, the only one that this version of the library reads"};
  }
  if (line.size() > max_line_bytes) return {"is longer than 64 KiB"};
  if (line.size() < date_length + last_length || !is_date({line.end - date_length, line.end}) ||
      std::memcmp(line.end - date_length - last_length, last, last_length) != 0) {
    return {"does not end in a date, so it was cut off or changed"};
  }
  return {};
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE bool is_field_name(line_part name) noexcept {
  if (name.size() == 0 || name.size() > max_field_name) return false;
  for (char const* at = name.begin; at != name.end; ++at) {
    char const c = *at;
    bool const good = is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
                      c == '-' || c == '.';
    if (!good) return false;
  }
  return true;
}

/// batch:median:p99:bytes
WARPWRIGHT_COLD WARPWRIGHT_INLINE bool read_point(line_part part, tuning_point& point) {
  line_reader reader{part};
  line_part batch{};
  line_part median{};
  line_part p99{};
  return reader.take_until(':', batch) && read_integer(batch, point.batch) &&
         reader.take_until(':', median) && read_number(median, point.median_seconds) &&
         reader.take_until(':', p99) && read_number(p99, point.p99_seconds) &&
         read_integer(reader.rest(), point.memory_bytes);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE bool read_points(line_part part,
                                                   std::vector<tuning_point>& points) {
  points.clear();
  if (part.size() == 0) return true;
  line_reader reader{part};
  line_part text{};
  for (bool more = true; more;) {
    more = reader.take_until(',', text);
    tuning_point point;
    if (!read_point(more ? text : reader.rest(), point)) return false;
    points.push_back(static_cast<tuning_point&&>(point));
  }
  return true;
}

/// field.name=value
WARPWRIGHT_COLD WARPWRIGHT_INLINE bool read_field(line_reader& reader, tuning_field& field) {
  line_part name{};
  line_part value{};
  if (!reader.take_until('.', name) || !reader.take_until('=', name) || !is_field_name(name) ||
      !reader.take_until('\t', value)) {
    return false;
  }
  field.name.assign(name.begin, name.size());
  return read_text(value, field.value);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE line_problem decode_record(line_part line,
                                                             tuning_record& record) {
  if (line_problem const problem = check_line(line)) return problem;
  line_reader reader{{line.begin + sizeof store_format - 1, line.end}};
  auto& key = record.key;
  bool const good =
      reader.take_text("kind", key.kind) && reader.take_text("tag", key.tag) &&
      reader.take_text("device", key.device) && reader.take_text("mig", key.mig_profile) &&
      reader.take_text("objective", key.objective) &&
      reader.take_integer("memory_cap_bytes", key.memory_cap_bytes) &&
      reader.take_integer("device_memory_bytes", key.device_memory_bytes) &&
      reader.take_text("driver", key.driver_version) &&
      reader.take_text("runtime", key.runtime_version) &&
      reader.take_text("library", key.library_version) &&
      reader.take_integer("batch", record.batch) &&
      reader.take_number("items_per_second", record.items_per_second) &&
      reader.take_number("latency_median_seconds", record.latency_median_seconds) &&
      reader.take_number("latency_p99_seconds", record.latency_p99_seconds) &&
      reader.take_integer("memory_bytes", record.memory_bytes) &&
      reader.take("points", [&record](line_part part) { return read_points(part, record.points); });
  if (!good) return {"has no valid field ", reader.failed()};
  record.fields.clear();
  constexpr char more[] = "field.";
  while (reader.rest().starts_with(more, sizeof more - 1)) {
    record.fields.emplace_back();
    if (!read_field(reader, record.fields.back())) return {"has no valid field ", "field.…"};
  }
  constexpr char last[] = "date=";
  constexpr std::size_t last_length = sizeof last - 1;
  // check_line() has seen what the line ends in.
  if (reader.rest().size() != last_length + 20) return {"has an unknown field before its date"};
  record.date.assign(reader.rest().begin + last_length, 20);
  return {};
}

}  // namespace detail

WARPWRIGHT_END
