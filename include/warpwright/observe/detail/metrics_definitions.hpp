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

inline void append_metric(std::string& to, std::uint64_t value) {
  char digits[20];
  to.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}
/// The shortest number that is read as the same value, in every locale.
inline void append_metric(std::string& to, double value) {
  double const size = std::fabs(value);
  if (std::isnan(value)) return static_cast<void>(to.append("NaN"));
  if (std::isinf(value)) return static_cast<void>(to.append(value < 0 ? "-Inf" : "+Inf"));
  if (std::signbit(value)) to += '-';
  if (size <= 9007199254740992.0 && size == std::floor(size)) {
    return append_metric(to, static_cast<std::uint64_t>(size));
  }
#if defined(__cpp_lib_to_chars)
  char digits[32];
  to.append(digits, std::to_chars(digits, digits + sizeof digits, size).ptr);
#else
  append_number(to, size);
#endif
}
/// A value of a label, or HELP, which has no quotes.
inline void append_metric(std::string& to, char const* text, bool quoted) {
  for (std::size_t bytes = 0; text != nullptr && *text != '\0'; text += bytes) {
    bytes = utf8_bytes(text);
    if (*text == '\\' || *text == '\n' || (quoted && *text == '"')) to += '\\';
    if (bytes == 1) to += *text == '\n' ? 'n' : *text;
    if (bytes > 1) to.append(text, bytes);
    if (bytes != 0) continue;
    to += '?';
    bytes = 1;
  }
}

WARPWRIGHT_COLD inline void check_metric_name(char const* what, char const* name, bool label,
                                              source_location where) {
  bool good = name != nullptr && *name != '\0' && !is_digit(*name) &&
              !(label && std::strncmp(name, "__", 2) == 0);
  for (char const* at = name; good && *at != '\0'; ++at) {
    good = is_digit(*at) || *at == '_' || (*at >= 'a' && *at <= 'z') ||
           (*at >= 'A' && *at <= 'Z') || (*at == ':' && !label);
  }
  if (good) return;
  throw_invalid_argument(
      text{"metrics: the "} + what + " '" + (name == nullptr ? "" : name) +
          "': names have letters, digits and _ (of metrics, :), and begin with no "
          "digit (of labels, nor with __); replace the others by _",
      where);
}

struct metrics_core : noncopyable {
  struct series {
    std::string labels;              // as written, without braces
    std::vector<std::string> lines;  // of each line all but the number
    metric_cells cells;
    std::vector<double> bounds;
    std::vector<unsigned char> buckets;
    void const* owner = nullptr;  // of a source's: the source_entry, and what it wrote last
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
    source_location where;  // of add()
    std::string labels{};
    std::vector<series*> members{};  // in the order of the calls
  };

  ~metrics_core() {
    for (void* const chunk : chunks) std::free(chunk);
  }

  static std::string line(std::string const& name, std::string const& labels) {
    return labels.empty() ? name + ' ' : name + '{' + labels + "} ";
  }
  static std::string joined(std::string const& labels, std::string const& more) {
    return labels.empty() || more.empty() ? labels + more : labels + ',' + more;
  }
  static void append(std::string& to, metric_labels labels, metric_kind kind,
                     source_location where) {
    for (metric_label const& label : labels) {
      check_metric_name("label", label.name, true, where);
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

  /// Cells that are zero, in all rows; the system gives no memory for rows that nobody counts in.
  WARPWRIGHT_COLD metric_cell* new_cells(std::size_t count) {
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

  WARPWRIGHT_COLD family& family_of(metric_kind kind, std::string const& name, char const* help,
                                    source_location where) {
    constexpr char const* kinds[] = {"counter", "gauge", "histogram"};
    check_metric_name("metric", name.c_str(), false, where);
    auto const writes = [](metric_kind of, std::string const& its, std::string const& line) {
      return its == line ||
             (of == metric_kind::histogram &&
              (line == its + "_bucket" || line == its + "_sum" || line == its + "_count"));
    };
    for (auto const& other : families) {
      if (other->name == name && other->kind == kind) return *other;
      if (!writes(other->kind, other->name, name) && !writes(kind, name, other->name)) continue;
      throw_invalid_argument(text{"metrics: '"} + name.c_str() + "' would have lines of the " +
                                 enum_name(kinds, other->kind) + " '" + other->name.c_str() +
                                 "'; rename one of them",
                             where);
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

  WARPWRIGHT_COLD series& add(metric_kind kind, std::string const& name, char const* help,
                              std::vector<double> const& bounds, std::string const& labels,
                              source_location where) {
    family& to = family_of(kind, name, help, where);
    for (auto const& other : to.members) {
      if (other->labels != labels) continue;
      throw_invalid_argument(text{"metrics: the series '"} + line(name, labels).c_str() +
                                 "' is there already; give one of them other labels",
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
    for (double const bound : bounds) {
      std::string le = "le=\"";
      append_metric(le, bound);
      made->lines.push_back(line(name + "_bucket", joined(labels, le + '"')));
    }
    if (kind == metric_kind::histogram) {
      made->lines.push_back(line(name + "_bucket", joined(labels, "le=\"+Inf\"")));
      made->lines.push_back(line(name + "_sum", labels));
    }
    made->lines.push_back(line(kind == metric_kind::histogram ? name + "_count" : name, labels));
    to.members.push_back(std::move(made));
    return *to.members.back();
  }

  void read(source_entry& source) {
    reading = &source;
    next = 0;
    metrics_writer writer{*this};
    source.collect(source.object, writer);
  }
  void write(metric_kind kind, char const* name, char const* help, double value,
             metric_labels labels) {
    source_location const where = reading->where;
    with_labels.clear();
    append(with_labels.append(reading->labels), labels, kind, where);
    text_line.assign(reading->name).append("_").append(name == nullptr ? "" : name);
    std::size_t const length = text_line.size();
    if (!with_labels.empty()) text_line.append("{").append(with_labels) += '}';
    text_line += ' ';
    std::vector<series*>& known = reading->members;
    series* found = nullptr;
    for (std::size_t i = 0; i != known.size() && found == nullptr; ++i) {
      series* const at = known[next++ % known.size()];
      if (at->lines[0] == text_line) found = at;
    }
    if (found == nullptr) {
      known.reserve(known.size() + 1);
      found = &add(kind, text_line.substr(0, length), help, {}, with_labels, where);
      found->owner = reading;
      known.push_back(found);
      next = known.size();
    } else if (found->written == texts) {
      throw_invalid_argument(text{"metrics: the source '"} + reading->name.c_str() + "' writes '" +
                                 text_line.c_str() + "' twice; give one of them other labels",
                             where);
    }
    found->written = texts;
    found->value = value;
  }

  void append(std::string& to, metric_kind kind, series const& of) const {
    metric_cell const* const cells = of.cells.cells;
    if (of.owner != nullptr || kind == metric_kind::gauge) {
      if (of.owner != nullptr && of.written != texts) return;
      append_metric(to.append(of.lines[0]),
                    of.owner != nullptr ? of.value : double_of(cells->load(memory_order::relaxed)));
      to += '\n';
      return;
    }
    // The count is the sum of the buckets as they were read, whatever is counted meanwhile.
    std::size_t const bounds = of.bounds.size();
    std::uint64_t total = 0;
    double sum = 0.0;
    for (std::size_t i = 0; i <= bounds; ++i) {
      for (std::size_t const row : used) total += cells[row + i].load(memory_order::relaxed);
      append_metric(to.append(of.lines[i]), total);
      to += '\n';
    }
    if (kind == metric_kind::counter) return;
    for (std::size_t const row : used) {
      sum += double_of(cells[row + bounds + 1].load(memory_order::relaxed));
    }
    append_metric(to.append(of.lines[bounds + 1]), sum);
    append_metric((to += '\n').append(of.lines[bounds + 2]), total);
    to += '\n';
  }

  /// Takes the series of a source out of their families.
  WARPWRIGHT_COLD void forget(source_entry const& source) noexcept {
    for (auto const& from : families) {
      for (std::size_t i = from->members.size(); i-- != 0;) {
        if (from->members[i]->owner != &source) continue;
        from->members.erase(from->members.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
  }

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
  std::vector<std::size_t> used;  // where the rows that were counted in begin
  std::string with_labels;
  std::string text_line;
  std::string problem;
};

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
    metric_kind kind, char const* name, char const* help, std::vector<double> bounds,
    metric_labels labels, source_location where) {
  using detail::metric_cells;
  std::size_t const count = bounds.size();
  bool good =
      count <= metric_cells::most_bounds && (count != 0) == (kind == metric_kind::histogram);
  for (std::size_t i = 0; i != count; ++i) {
    good = good && std::isfinite(bounds[i]) && (i == 0 || bounds[i] > bounds[i - 1]);
    bounds[i] += 0.0;  // no -0, whose key is not that of 0
  }
  if (!good) {
    detail::throw_invalid_argument(detail::text{"metrics: the "} + count + " bounds of '" + name +
                                       "' are not 1 to 128 finite numbers in rising order; sort "
                                       "them, and leave out +Inf, whose bucket is always there",
                                   where);
  }
  std::vector<unsigned char> buckets;
  unsigned const first_key = count == 0 ? 0 : metric_cells::key_of(bounds[0]);
  for (unsigned at = 0, key = first_key; at != count; ++key) {
    while (at != count && metric_cells::key_of(bounds[at]) < key) ++at;
    buckets.push_back(static_cast<unsigned char>(at));
  }
  detail::unique_lock<detail::mutex> const lock{core_->lock};
  std::string rendered;
  core_->append(rendered, labels, kind, where);
  detail::metric_cell* const cells = core_->new_cells(count + 2);
  auto& made = core_->add(kind, name == nullptr ? "" : name, help, bounds, rendered, where);
  made.buckets.swap(buckets);
  made.bounds.swap(bounds);
  made.cells = {&core_->rows,
                cells,
                made.bounds.data(),
                made.buckets.data(),
                static_cast<unsigned>(count),
                first_key,
                static_cast<unsigned>(made.buckets.size()) - 1};
  return made.cells;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE void metrics_page::add_source(
    char const* name, void* source, detail::collect_function collect, metric_labels labels,
    source_location where) {
  detail::check_metric_name("source", name, false, where);
  detail::unique_lock<detail::mutex> const lock{core_->lock};
  auto made = std::make_unique<detail::metrics_core::source_entry>(
      detail::metrics_core::source_entry{source, collect, name, where});
  core_->append(made->labels, labels, metric_kind::gauge, where);
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
  core.rows.for_each([&core](std::size_t row) { core.used.push_back(row); });
  for (auto const& family : core.families) {
    if (!family->members.empty()) text.append(family->head);
    for (auto const& series : family->members) core.append(text, family->kind, *series);
  }
}
WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE std::string metrics_page::problem() const {
  detail::unique_lock<detail::mutex> const lock{core_->lock};
  return core_->problem;
}

WARPWRIGHT_END
