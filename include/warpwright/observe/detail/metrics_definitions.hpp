// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/text/line_fields.hpp>
#include <warpwright/core/detail/thread/locks.hpp>
#include <warpwright/observe/metrics.hpp>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <memory>

WARPWRIGHT_BEGIN

namespace detail {

struct metrics_core : noncopyable {
  struct source_entry;
  struct series {
    std::string labels;              // as written, without braces
    std::vector<std::string> lines;  // the begin of each line, up to the number
    metric_cells cells;
    std::vector<double> bounds;
    std::vector<unsigned char> buckets;
    // Of a source: who and what wrote it, when the last time, and the value.
    source_entry* owner = nullptr;
    std::string owner_name;
    std::string owner_labels;
    std::uint64_t written = 0;
    double value = 0.0;
  };
  struct family {
    std::string name;
    std::string head;  // the lines of HELP and TYPE
    metric_kind kind{};
    std::vector<std::unique_ptr<series>> members{};
  };
  struct source_entry {
    void* object;
    collect_function collect;
    std::string name;
    std::string labels;
    std::vector<series*> members{};  // in the order of the calls
  };

  ~metrics_core() {
    for (void* const chunk : chunks) std::free(chunk);
  }
  metric_cell* new_cells(std::size_t count);
  family& family_of(metric_kind kind, std::string const& name, char const* help,
                    source_location where);
  series& add(metric_kind kind, std::string const& name, char const* help,
              std::vector<double> const& bounds, std::string const& labels, source_location where);
  void read(source_entry& source) {
    reading = &source;
    next = 0;
    metrics_writer writer{*this};
    source.collect(source.object, writer);
  }
  void write(metric_kind kind, char const* name, char const* help, double value,
             metric_labels labels);
  void write_own(metric_kind kind, series const& of, std::string& to) const;
  template <class Number>
  [[nodiscard]] Number sum(metric_cell const* cell, Number (*value_of)(std::uint64_t)) const {
    Number sum{};
    for (unsigned const row : used) {
      sum += value_of(cell[row * metric_rows::stride].load(memory_order::relaxed));
    }
    return sum;
  }
  void forget(source_entry const& source) noexcept;

  std::size_t max_series = 0;
  mutex lock;
  metric_rows rows;
  std::vector<void*> chunks;
  metric_cell* free_cells = nullptr;  // of the first row
  std::size_t free_count = 0;
  std::vector<std::unique_ptr<family>> families;
  std::vector<std::unique_ptr<source_entry>> sources;
  source_entry* reading = nullptr;
  std::size_t next = 0;  // of its members
  bool trial = false;
  std::uint64_t texts = 0;
  std::vector<unsigned> used;  // rows, at the begin of a text
  std::string scratch;
  std::string problem;
};

inline void append_count(std::string& to, std::uint64_t value) {
  char digits[20];
  char* at = digits + sizeof digits;
  do *--at = static_cast<char>('0' + value % 10);
  while ((value /= 10) != 0);
  to.append(at, static_cast<std::size_t>(digits + sizeof digits - at));
}
/// The shortest number that is read as the same value, in every locale.
inline void append_metric(std::string& to, double value) {
  if (std::isnan(value)) return static_cast<void>(to.append("NaN"));
  double const size = std::fabs(value);
  if (std::signbit(value)) to += '-';
  if (size <= 9007199254740992.0 && size == std::floor(size)) {
    append_count(to, static_cast<std::uint64_t>(size));
  } else if (std::isinf(size)) {
    to.append(value < 0 ? "Inf" : "+Inf");
  } else {
#if defined(__cpp_lib_to_chars)
    char digits[32];
    char* const end = std::to_chars(digits, digits + sizeof digits, size).ptr;
    to.append(digits, static_cast<std::size_t>(end - digits));
#else
    append_number(to, size);
#endif
  }
}
/// A value of a label, or HELP, which has no quotes.
inline void append_metric(std::string& to, char const* text, bool quoted) {
  for (std::size_t bytes = 0; text != nullptr && *text != '\0'; text += bytes) {
    bytes = utf8_bytes(text);
    if (*text == '\n') {
      to.append("\\n");
    } else if (bytes == 0) {
      bytes = 1;
      to += '?';
    } else {
      if (*text == '\\' || (quoted && *text == '"')) to += '\\';
      to.append(text, bytes);
    }
  }
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void check_metric_name(char const* what, char const* name,
                                                         source_location where) {
  bool const label = *what == 'l';
  bool good = name != nullptr && *name != '\0' && !is_digit(*name) &&
              !(label && std::strncmp(name, "__", 2) == 0);
  for (char const* at = name; good && *at != '\0'; ++at) {
    good = is_digit(*at) || *at == '_' || (*at >= 'a' && *at <= 'z') ||
           (*at >= 'A' && *at <= 'Z') || (*at == ':' && !label);
  }
  if (good) return;
  throw_invalid_argument(text{"metrics: the "} + what + " '" + (name == nullptr ? "" : name) +
                             "' is no name of one, which has letters, digits and _ alone" +
                             (label ? ", and does not begin with a digit or __"
                                    : " (or :), and does not begin with a digit") +
                             "; replace the others by _",
                         where);
}

WARPWRIGHT_INLINE void append_metric(std::string& to, metric_labels labels, metric_kind kind,
                                     source_location where) {
  for (metric_label const& label : labels) {
    check_metric_name("label", label.name, where);
    bool taken = kind == metric_kind::histogram && std::strcmp(label.name, "le") == 0;
    for (metric_label const* other = labels.begin(); other != &label; ++other) {
      taken = taken || std::strcmp(other->name, label.name) == 0;
    }
    if (taken) {
      throw_invalid_argument(text{"metrics: the label '"} + label.name +
                                 "' is given twice, or is the bound of a histogram; rename it",
                             where);
    }
    if (!to.empty()) to += ',';
    to.append(label.name).append("=\"");
    append_metric(to, label.value, true);
    to += '"';
  }
}

/// Cells that are zero, in all rows; of a row that no thread counts in the system gives no memory.
WARPWRIGHT_COLD WARPWRIGHT_INLINE metric_cell* metrics_core::new_cells(std::size_t count) {
  if (free_count < count) {
    chunks.reserve(chunks.size() + 1);
    void* const chunk = std::calloc(metric_rows::stride * metric_rows::count + 8, 8);
    if (chunk == nullptr) throw std::bad_alloc{};
    chunks.push_back(chunk);
    std::size_t const behind_line = reinterpret_cast<std::uintptr_t>(chunk) % 64;
    free_cells = static_cast<metric_cell*>(chunk) + (64 - behind_line) % 64 / 8;
    free_count = metric_rows::stride;
  }
  free_count -= count;
  return std::exchange(free_cells, free_cells + count);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE metrics_core::family& metrics_core::family_of(
    metric_kind kind, std::string const& name, char const* help, source_location where) {
  constexpr char const* kinds[] = {"counter", "gauge", "histogram"};
  check_metric_name("metric", name.c_str(), where);
  auto const writes = [](metric_kind of, std::string const& its, std::string const& line) {
    return its == line ||
           (of == metric_kind::histogram &&
            (line == its + "_bucket" || line == its + "_sum" || line == its + "_count"));
  };
  for (auto const& other : families) {
    if (other->name == name && other->kind == kind) return *other;
    if (writes(other->kind, other->name, name) || writes(kind, name, other->name)) {
      throw_invalid_argument(text{"metrics: the "} + enum_name(kinds, kind) + " '" + name.c_str() +
                                 "' would have lines of the " + enum_name(kinds, other->kind) +
                                 " '" + other->name.c_str() + "'; rename one of them",
                             where);
    }
  }
  auto made = std::make_unique<family>(family{name, "", kind});
  if (help != nullptr && *help != '\0') {
    append_metric(made->head += "# HELP " + name + ' ', help, false);
    made->head += '\n';
  }
  made->head += "# TYPE " + name + ' ' + enum_name(kinds, kind) + '\n';
  families.push_back(std::move(made));
  return *families.back();
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE metrics_core::series& metrics_core::add(
    metric_kind kind, std::string const& name, char const* help, std::vector<double> const& bounds,
    std::string const& labels, source_location where) {
  family& to = family_of(kind, name, help, where);
  bool found = false;
  for (auto const& other : to.members) found = found || other->labels == labels;
  if (found) {
    throw_invalid_argument(text{"metrics: the series '"} + name.c_str() + "{" + labels.c_str() +
                               "}' is there already; give one of them other labels",
                           where);
  }
  if (to.members.size() >= max_series) {
    throw_invalid_argument(text{"metrics: '"} + name.c_str() + "' has " + to.members.size() +
                               " series, and max_series is " + max_series +
                               "; do not make labels from users' input, or raise max_series",
                           where);
  }
  auto made = std::make_unique<series>();
  made->labels = labels;
  auto const line = [&](char const* suffix, std::string const& inside) {
    made->lines.push_back(name + suffix + (inside.empty() ? " " : '{' + inside + "} "));
  };
  for (double const bound : bounds) {
    made->bounds.push_back(bound + 0.0);  // no -0, whose key is not that of 0
    std::string le = (labels.empty() ? "" : labels + ',') + "le=\"";
    append_metric(le, made->bounds.back());
    line("_bucket", le + '"');
  }
  if (kind == metric_kind::histogram) {
    line("_bucket", (labels.empty() ? "" : labels + ',') + "le=\"+Inf\"");
    line("_sum", labels);
    line("_count", labels);
  } else {
    line("", labels);
  }
  to.members.push_back(std::move(made));
  return *to.members.back();
}

WARPWRIGHT_INLINE void metrics_core::write(metric_kind kind, char const* name, char const* help,
                                           double value, metric_labels labels) {
  source_location const where = source_location::current();
  scratch.clear();
  append_metric(scratch, labels, kind, where);
  std::vector<series*>& known = reading->members;
  series* found = nullptr;
  for (std::size_t i = 0; i != known.size() && found == nullptr; ++i, ++next) {
    if (next >= known.size()) next = 0;
    series* const at = known[next];
    if (at->owner_name == name && at->owner_labels == scratch) found = at;
  }
  if (found == nullptr) {
    check_metric_name("metric", name, where);
    known.reserve(known.size() + 1);
    std::string const both =
        reading->labels + (reading->labels.empty() || scratch.empty() ? "" : ",") + scratch;
    found = &add(kind, reading->name + '_' + name, help, {}, both, where);
    found->owner = reading;
    found->owner_name = name;
    found->owner_labels = scratch;
    known.push_back(found);
    next = known.size();
  } else if (found->written == texts) {
    throw_invalid_argument(text{"metrics: '"} + reading->name.c_str() + "' writes '" + name +
                               "' twice in a text; give one of them other labels",
                           where);
  }
  found->written = texts;
  found->value = value;
}

/// Takes the series of a source out of their families.
WARPWRIGHT_COLD WARPWRIGHT_INLINE void metrics_core::forget(source_entry const& source) noexcept {
  for (auto const& from : families) {
    for (std::size_t i = from->members.size(); i-- != 0;) {
      if (from->members[i]->owner != &source) continue;
      from->members.erase(from->members.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
}

WARPWRIGHT_INLINE void metrics_core::write_own(metric_kind kind, series const& of,
                                               std::string& to) const {
  std::size_t const bounds = of.bounds.size();
  std::uint64_t total = 0;
  if (kind == metric_kind::gauge) {
    append_metric(to.append(of.lines[0]), double_of(of.cells.cells->load(memory_order::relaxed)));
    to += '\n';
    return;
  }
  // The count is the sum of the buckets as they were read, whatever is counted meanwhile.
  auto const count_of = [](std::uint64_t count) { return count; };
  for (std::size_t bucket = 0; bucket <= bounds; ++bucket) {
    total += sum<std::uint64_t>(of.cells.cells + bucket, count_of);
    append_count(to.append(of.lines[bucket]), total);
    to += '\n';
  }
  if (kind == metric_kind::counter) return;
  append_metric(to.append(of.lines[bounds + 1]), sum(of.cells.cells + bounds + 1, &double_of));
  append_count((to += '\n').append(of.lines[bounds + 2]), total);
  to += '\n';
}

}  // namespace detail

WARPWRIGHT_INLINE void metrics_writer::write(metric_kind kind, char const* name, char const* help,
                                             double value, metric_labels labels) {
  try {
    core_.write(kind, name, help, value, labels);
  } catch (std::invalid_argument const& error) {
    if (core_.trial) throw;
    if (core_.problem.empty()) core_.problem = error.what();
  }
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE metrics_page::metrics_page(std::size_t max_series,
                                                                   source_location where) {
  if (max_series == 0) {
    detail::throw_invalid_argument("metrics_page: max_series is 0; give at least 1", where);
  }
  auto made = std::make_unique<detail::metrics_core>();
  made->max_series = max_series;
  made->used.reserve(detail::metric_rows::count);
  core_ = made.release();
}
WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE metrics_page::~metrics_page() { delete core_; }

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE detail::metric_cells& metrics_page::make(
    metric_kind kind, char const* name, char const* help, std::vector<double> const& bounds,
    metric_labels labels, source_location where) {
  using detail::metric_cells;
  std::size_t const count = bounds.size();
  bool good =
      count <= metric_cells::most_bounds && (count != 0) == (kind == metric_kind::histogram);
  for (std::size_t i = 0; i != count; ++i) {
    good = good && std::isfinite(bounds[i]) && (i == 0 || bounds[i] > bounds[i - 1]);
  }
  if (!good) {
    detail::throw_invalid_argument(detail::text{"metrics: the "} + count + " bounds of '" + name +
                                       "' are not 1 to 128 finite numbers in rising order; sort "
                                       "them, and leave out +Inf, whose bucket is always there",
                                   where);
  }
  std::vector<unsigned char> buckets;
  unsigned const first_key = count == 0 ? 0 : metric_cells::key_of(bounds.front() + 0.0);
  for (unsigned at = 0, key = first_key; count != 0; ++key) {
    while (at != count && metric_cells::key_of(bounds[at] + 0.0) < key) ++at;
    buckets.push_back(static_cast<unsigned char>(at));
    if (at == count) break;
  }
  detail::unique_lock<detail::mutex> const lock{core_->lock};
  std::string rendered;
  detail::append_metric(rendered, labels, kind, where);
  detail::metric_cell* const cells = core_->new_cells(count + 2);
  auto& made = core_->add(kind, name == nullptr ? "" : name, help, bounds, rendered, where);
  made.buckets.swap(buckets);
  made.cells.rows = &core_->rows;
  made.cells.cells = cells;
  made.cells.bounds = made.bounds.data();
  made.cells.buckets = made.buckets.data();
  made.cells.count = static_cast<unsigned>(count);
  made.cells.first_key = first_key;
  made.cells.last = count == 0 ? 0 : static_cast<unsigned>(made.buckets.size() - 1);
  return made.cells;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE void metrics_page::add_source(
    char const* name, void* source, detail::collect_function collect, metric_labels labels,
    source_location where) {
  detail::check_metric_name("source", name, where);
  detail::unique_lock<detail::mutex> const lock{core_->lock};
  auto made = std::make_unique<detail::metrics_core::source_entry>(
      detail::metrics_core::source_entry{source, collect, name, ""});
  detail::append_metric(made->labels, labels, metric_kind::gauge, where);
  core_->sources.reserve(core_->sources.size() + 1);
  ++core_->texts;
  core_->trial = true;
  try {
    core_->read(*made);
  } catch (...) {
    core_->trial = false;
    core_->forget(*made);
    throw;
  }
  core_->trial = false;
  core_->sources.push_back(std::move(made));
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE bool metrics_page::remove_source(
    void const* source) noexcept {
  detail::unique_lock<detail::mutex> const lock{core_->lock};
  std::size_t const before = core_->sources.size();
  for (std::size_t i = before; i-- != 0;) {
    if (core_->sources[i]->object != source) continue;
    core_->forget(*core_->sources[i]);
    core_->sources.erase(core_->sources.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return core_->sources.size() != before;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE void metrics_page::to_prometheus(std::string& text) const {
  detail::metrics_core& core = *core_;
  detail::unique_lock<detail::mutex> const lock{core.lock};
  ++core.texts;
  for (auto const& source : core.sources) {
    try {
      core.read(*source);
    } catch (std::exception const& error) {
      if (core.problem.empty()) core.problem = "metrics: '" + source->name + "': " + error.what();
    }
  }
  core.used.clear();
  core.rows.for_each([&core](unsigned row) { core.used.push_back(row); });
  for (auto const& family : core.families) {
    if (!family->members.empty()) text.append(family->head);
    for (auto const& series : family->members) {
      if (series->owner == nullptr) {
        core.write_own(family->kind, *series, text);
      } else if (series->written == core.texts) {
        detail::append_metric(text.append(series->lines[0]), series->value);
        text += '\n';
      }
    }
  }
}
WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE std::string metrics_page::problem() const {
  detail::unique_lock<detail::mutex> const lock{core_->lock};
  return core_->problem;
}

WARPWRIGHT_END
