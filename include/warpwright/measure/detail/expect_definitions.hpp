// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/system/file.hpp>
#include <warpwright/core/detail/text/figures.hpp>
#include <warpwright/core/detail/text/line_fields.hpp>
#include <warpwright/core/detail/text/string_builder.hpp>
#include <warpwright/core/detail/text/text.hpp>
#include <warpwright/measure/detail/statistics.hpp>
#include <warpwright/measure/expect.hpp>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <stdexcept>

WARPWRIGHT_BEGIN

namespace detail {

// From here on a double does not hold each number of bytes.
inline constexpr unsigned long long memory_limit_end = 1ULL << 53U;

// "p99 of decode"
WARPWRIGHT_COLD inline string_builder what_is_expected(expectation const& e) {
  string_builder text = "throughput of ";
  if (e.figure == expected_figure::memory) text = "memory of ";
  if (e.figure == expected_figure::latency) {
    bool const is_median = std::fabs(e.quantile - 0.5) < 1e-12;
    text = is_median ? string_builder{"median latency of "} : quantile_name(e.quantile) + " of ";
  }
  return text + e.name;
}

// @param digits  significant ones
WARPWRIGHT_COLD inline string_builder expected_amount(expectation const& e, double value,
                                                      int digits) {
  if (e.figure == expected_figure::throughput) {
    return trimmed(format_rate(value, digits)) + " items/s";
  }
  if (e.figure == expected_figure::memory) {
    // Bytes count where the shorter text would hide a difference.
    return digits > 6 ? format_number("%.0f B", value) : trimmed(format_bytes(value, digits));
  }
  return trimmed(format_seconds(value, digits));
}

// "22 %"
WARPWRIGHT_COLD inline string_builder shortfall_text(double share) {
  if (share < 0.001) return "less than 0.1 %";
  return format_number(share < 0.0995 ? "%.2g %%" : "%.0f %%", 100.0 * share);
}

WARPWRIGHT_COLD inline string_builder finding_text(finding const& f) {
  expectation const& e = f.expected;
  bool const at_least = e.figure == expected_figure::throughput;
  int digits = e.figure == expected_figure::latency ? 3 : 4;
  auto const amount = [&](double value) { return expected_amount(e, value, digits); };
  auto const limit = [&] { return expected_amount(e, e.limit, digits > 6 ? digits : 6); };
  // A figure that is not the limit must not look as if it were.
  auto const tell_apart = [&](double value) {
    bool const equal = !(value < e.limit) && !(value > e.limit);
    while (!equal && digits < 9 && amount(value).str() == limit().str()) ++digits;
  };
  bool const not_shown = f.state == finding_state::not_shown;
  bool const fell_short = f.state == finding_state::fell_short;
  if (not_shown) {
    tell_apart(f.low);
    tell_apart(f.high);
  }
  if (fell_short) tell_apart(f.value);

  string_builder text = what_is_expected(e) + ": ";
  text +=
      f.state == finding_state::no_figure ? string_builder{"nothing observed"} : amount(f.value);
  if (not_shown) {  // "(between 2.9 ms and 6 ms)"
    char const* const why =
        at_least ? ", and no other bound)" : ", and too few calls to tell more)";
    bool const has_low = f.low > 0.0;
    bool const has_high = f.high < 1e300;
    if (has_low && has_high) {
      text += " (between " + amount(f.low) + " and " + amount(f.high) + ")";
    } else if (has_low) {
      text += " (at least " + amount(f.low) + why;
    } else {
      text += has_high ? " (at most " + amount(f.high) + why
                       : string_builder{" (too few calls to tell)"};
    }
  }
  text += string_builder{at_least ? ", expected at least " : ", expected at most "} + limit();
  if (fell_short) {  // "(22 % over, at least 17 %)"
    auto const share = [&](double value) { return std::fabs(value - e.limit) / e.limit; };
    double const bound = share(at_least ? f.high : f.low);
    string_builder const by = shortfall_text(share(f.value));
    string_builder const least = shortfall_text(bound);
    text += " (" + by + (at_least ? " under" : " over");
    text += bound < 0.001 || by.str() == least.str() ? string_builder{")"}
                                                     : ", at least " + least + ")";
  }
  return text;
}

}  // namespace detail

WARPWRIGHT_INLINE char const* to_string(finding_state state) {
  constexpr char const* names[] = {"met", "not shown", "fell short", "no figure"};
  return detail::enum_name(names, state);
}

WARPWRIGHT_INLINE std::string expectation_report::to_text() const {
  std::string all;
  for (bool const short_ones : {true, false}) {
    for (finding const& f : findings) {
      if ((f.state == finding_state::fell_short) != short_ones) continue;
      all += to_string(f.state);
      all += ": ";
      all += f.text;
      all += '\n';
    }
  }
  return all;
}

WARPWRIGHT_INLINE void expectation_report::throw_if_short(source_location where) const {
  if (ok()) return;
  detail::string_builder all{detail::text{where.file(), where.line()}.c_str()};
  all += ": slower or larger than expected";
  for (finding const& f : findings) {
    if (f.state == finding_state::fell_short) all += detail::string_builder{"\n  "} + f.text;
  }
  throw std::runtime_error{all.str()};
}

WARPWRIGHT_INLINE observed observed::throughput(measurement const& m, double items,
                                                source_location where) const {
  if (!(items > 0.0 && items < HUGE_VAL)) {
    detail::throw_invalid_argument(detail::text{"observed: "} + items +
                                       " items a call; pass how many items one call processes",
                                   where);
  }
  observed o = *this;
  sample_summary const& s = m.summary;
  o.throughput_.known = s.count > 0 && s.median_seconds > 0.0;
  if (!o.throughput_.known) return o;
  o.throughput_.value = items / s.median_seconds;
  o.throughput_.low = items / s.median_high_seconds;
  o.throughput_.high = s.median_low_seconds > 0.0 ? items / s.median_low_seconds : HUGE_VAL;
  return o;
}

WARPWRIGHT_INLINE observed observed::latency(measurement const& m, source_location where) const {
  if (m.calls_per_sample > 1) {
    detail::throw_invalid_argument(
        detail::text{"observed: the samples are means of "} + m.calls_per_sample +
            " calls; measure single calls, with expectations::latency_options()",
        where);
  }
  observed o = *this;
  sample_summary const& s = m.summary;
  o.median_ = bounds{s.median_seconds, s.median_low_seconds, s.median_high_seconds, s.count > 0};
  o.p99_ = bounds{};
  o.samples_ = m.samples;
  o.effective_samples_ = m.effective_samples;
  return o;
}

WARPWRIGHT_INLINE observed observed::memory(std::size_t bytes) const {
  observed o = *this;
  auto const value = static_cast<double>(bytes);
  o.memory_ = bounds{value, value, value, true};
  return o;
}

WARPWRIGHT_INLINE observed::bounds observed::figure(expectation const& e, double alpha,
                                                    source_location where) const {
  if (e.figure == expected_figure::throughput) return throughput_;
  if (e.figure == expected_figure::memory) return memory_;
  if (std::fabs(e.quantile - 0.5) < 1e-12) return median_;
  if (samples_.empty()) return std::fabs(e.quantile - 0.99) < 1e-12 ? p99_ : bounds{};
  detail::array<double> const sorted = detail::sorted_copy(samples_.data(), samples_.size(), where);
  std::size_t const n = sorted.size();
  // Correlated samples stand for fewer independent ones, of which the ranks are then stretched.
  auto effective = static_cast<std::size_t>(effective_samples_);
  effective = effective > n ? n : effective < 1 ? 1 : effective;
  auto const stretched = [n, effective](std::size_t rank) { return rank * n / effective; };
  constexpr double alpha_high = 0.05;
  std::size_t const below = detail::binomial_tail(effective, e.quantile, alpha, effective);
  std::size_t const above =
      detail::binomial_tail(effective, 1.0 - e.quantile, alpha_high, effective);
  bounds b;
  b.known = true;
  b.value = sorted[detail::nearest_rank(n, e.quantile)];
  b.low = below == 0 ? 0.0 : sorted[stretched(below - 1)];
  b.high = above == 0 ? HUGE_VAL : sorted[n - 1 - stretched(above - 1)];
  return b;
}

WARPWRIGHT_INLINE expectations expectations::throughput_at_least(std::string name,
                                                                 double items_per_second,
                                                                 source_location where) const {
  return with(expectation{std::move(name), expected_figure::throughput, 0.0, items_per_second},
              where);
}

WARPWRIGHT_INLINE expectations expectations::latency_at_most(std::string name, double quantile,
                                                             double seconds,
                                                             source_location where) const {
  detail::check_quantile(quantile, 0.5, where);
  return with(expectation{std::move(name), expected_figure::latency, quantile, seconds}, where);
}

WARPWRIGHT_INLINE expectations expectations::memory_at_most(std::string name, std::size_t bytes,
                                                            source_location where) const {
  expectation line{std::move(name), expected_figure::memory, 0.0, static_cast<double>(bytes)};
  if (bytes >= detail::memory_limit_end) {
    detail::throw_invalid_argument(detail::text{"expectations: a limit of "} + bytes +
                                       " bytes for '" + line.name.c_str() +
                                       "'; it must be below 2^53: leave the line out if there is "
                                       "no limit",
                                   where);
  }
  return with(std::move(line), where);
}

WARPWRIGHT_INLINE bool expectations::has(std::string const& name,
                                         expected_figure figure) const noexcept {
  for (expectation const& e : lines_) {
    if (e.figure == figure && e.name == name) return true;
  }
  return false;
}

WARPWRIGHT_INLINE measure_options expectations::latency_options(std::string const& name) const {
  double needed = 200.0;
  for (expectation const& e : lines_) {
    if (e.figure != expected_figure::latency || e.name != name) continue;
    double const samples = 20.0 / (1.0 - e.quantile);
    if (samples > needed) needed = samples;
  }
  constexpr std::size_t most = 100000;
  auto const count = needed < 1e5 ? static_cast<std::size_t>(needed + 0.5) : most;
  return measure_options{}
      .sample_seconds(0.0)
      .precision(0.02)
      .min_samples(count)
      .max_samples(most)
      .max_seconds(10.0);
}

WARPWRIGHT_INLINE expectation_report expectations::check(std::vector<observed> const& all,
                                                         source_location where) const {
  check_names(all, where);
  double const alpha = 0.01 / static_cast<double>(lines_.size() > 0 ? lines_.size() : 1);
  expectation_report report;
  for (expectation const& e : lines_) {
    report.findings.emplace_back();
    finding& f = report.findings.back();
    f.expected = e;
    for (observed const& o : all) {
      if (o.name() != e.name) continue;
      auto const figure = o.figure(e, alpha, where);
      if (!figure.known) continue;
      f.value = figure.value;
      f.low = figure.low;
      f.high = figure.high;
      bool const at_least = e.figure == expected_figure::throughput;
      bool const beyond = at_least ? f.high < e.limit : f.low > e.limit;
      bool const within = at_least ? f.low >= e.limit : f.high <= e.limit;
      f.state = beyond   ? finding_state::fell_short
                : within ? finding_state::met
                         : finding_state::not_shown;
    }
    f.text = detail::finding_text(f).str();
  }
  return report;
}

WARPWRIGHT_INLINE expectations expectations::with(expectation line, source_location where) const {
  if (line.name.empty()) {
    detail::throw_invalid_argument("expectations: a name is empty; name what is measured", where);
  }
  if (!(line.limit > 0.0 && line.limit < HUGE_VAL)) {
    detail::throw_invalid_argument(detail::text{"expectations: a limit of "} + line.limit +
                                       " for '" + line.name.c_str() +
                                       "'; it must be above 0 and finite",
                                   where);
  }
  for (expectation const& e : lines_) {
    if (e.name != line.name || e.figure != line.figure ||
        std::fabs(e.quantile - line.quantile) > 1e-12) {
      continue;
    }
    detail::throw_invalid_argument(detail::text{"expectations: two limits for "} +
                                       detail::what_is_expected(line).str().c_str() +
                                       "; keep one of them",
                                   where);
  }
  expectations copy = *this;
  copy.lines_.push_back(std::move(line));
  return copy;
}

WARPWRIGHT_INLINE void expectations::check_names(std::vector<observed> const& all,
                                                 source_location where) const {
  for (observed const& o : all) {
    bool known = false;
    for (expectation const& e : lines_) known = known || e.name == o.name();
    int count = 0;
    for (observed const& other : all) count += other.name() == o.name() ? 1 : 0;
    if (known && count == 1) continue;
    detail::throw_invalid_argument(
        detail::text{"expectations: '"} + o.name().c_str() +
            (known ? "' was observed twice; pass one observation with all figures"
                   : "' was observed, but nothing is expected of it; use the table's name"),
        where);
  }
}

namespace detail {

inline constexpr char expectation_format[] = "warpwright_expected=1\t";

inline constexpr char const* figure_names[] = {"throughput", "latency", "memory"};
inline constexpr char const* figure_units[] = {"unit=items/s", "unit=s", "unit=bytes"};

inline bool is_text(line_part part, char const* text) noexcept {
  return part.size() == std::strlen(text) && part.starts_with(text, part.size());
}

// Adds the line to the table; returns what is wrong with it.
inline line_problem add_line(line_part line, expectations& table, source_location where) {
  constexpr std::size_t start = sizeof expectation_format - 1;
  if (!line.starts_with(expectation_format, start)) return {"is not an expectation of format 1"};
  line_reader reader{{line.begin + start, line.end}};
  expectation e;
  bool const good = reader.take_text("name", e.name) &&
                    reader.take("figure",
                                [&e](line_part part) {
                                  int figure = 0;
                                  while (figure < 3 && !is_text(part, figure_names[figure]))
                                    ++figure;
                                  e.figure = static_cast<expected_figure>(figure);
                                  return figure < 3;
                                }) &&
                    reader.take_number("quantile", e.quantile) &&
                    reader.take_number("limit", e.limit);
  if (!good) return {"has no valid field ", reader.failed()};
  char const* const unit = enum_name(figure_units, e.figure);
  if (!is_text(reader.rest(), unit)) return {"does not end in ", unit};
  if (e.figure == expected_figure::throughput) {
    table = table.throughput_at_least(e.name, e.limit, where);
  } else if (e.figure == expected_figure::latency) {
    table = table.latency_at_most(e.name, e.quantile, e.limit, where);
  } else if (e.limit < 1.0 || e.limit >= static_cast<double>(memory_limit_end)) {
    return {"has no valid field ", "limit"};
  } else {
    table = table.memory_at_most(e.name, static_cast<std::size_t>(e.limit), where);
  }
  return {};
}

// @param source  of the text: "", or " of " and a path
inline expectations read_expectations(std::string const& text_of_table, std::string const& source,
                                      source_location where) {
  expectations table;
  for_each_line(
      text_of_table.data(), text_of_table.size(), [&](line_part line, std::size_t number) {
        if (line.end[-1] == '\r') --line.end;  // an editor's line ends
        if (line.size() == 0) return;
        std::string problem;
        try {
          line_problem const found = add_line(line, table, where);
          if (!found) return;
          problem = (string_builder{found.text} + found.field).str();
        } catch (std::invalid_argument const& error) {  // of the table: a limit of 0, a second line
          char const* const reason = std::strstr(error.what(), "expectations: ");
          problem = reason == nullptr ? error.what() : reason + sizeof "expectations: " - 1;
          problem.insert(0, "is refused: ");
        }
        throw std::invalid_argument{(string_builder{text{where.file(), where.line()}.c_str()} +
                                     ": expectations: line " + number + source + " " + problem +
                                     "; it is '" + std::string(line.begin, line.end) +
                                     "', and to_text() shows the form of a line")
                                        .str()};
      });
  return table;
}

[[noreturn]] WARPWRIGHT_COLD inline void throw_expectation_file(char const* problem,
                                                                std::string const& path, int error,
                                                                source_location where) {
  throw std::runtime_error{(string_builder{text{where.file(), where.line()}.c_str()} +
                            ": expectations: " + problem + " " + path + ": " +
                            std::strerror(error) + "; check the path and its permissions")
                               .str()};
}

}  // namespace detail

WARPWRIGHT_INLINE std::string to_text(expectations const& table) {
  std::string all = "# Figures that this service should reach, an expectation a line.\n";
  for (expectation const& e : table.lines()) {
    all += detail::expectation_format;
    detail::append_field(all, "name", e.name);
    detail::append_field(all, "figure",
                         std::string{detail::enum_name(detail::figure_names, e.figure)});
    detail::append_field(all, "quantile", e.quantile);
    detail::append_field(all, "limit", e.limit);
    all += detail::enum_name(detail::figure_units, e.figure);
    all += '\n';
  }
  return all;
}

WARPWRIGHT_INLINE expectations expectations_from_text(std::string const& text,
                                                      source_location where) {
  return detail::read_expectations(text, {}, where);
}

WARPWRIGHT_INLINE void save_expectations(std::string const& path, expectations const& table,
                                         source_location where) {
  std::string const all = to_text(table);
  int const error = detail::write_file(path.c_str(), all.data(), all.size());
  if (error != 0) detail::throw_expectation_file("cannot write", path, error, where);
}

WARPWRIGHT_INLINE expectations load_expectations(std::string const& path, source_location where) {
  errno = 0;
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) detail::throw_expectation_file("cannot open", path, errno, where);
  std::string all;
  char part[4096];
  for (std::size_t got = 1; got != 0;) {
    got = std::fread(part, 1, sizeof part, file);
    all.append(part, got);
  }
  int const error = std::ferror(file) != 0 ? errno : 0;
  static_cast<void>(std::fclose(file));
  if (error != 0) detail::throw_expectation_file("cannot read", path, error, where);
  return detail::read_expectations(all, " of " + path, where);
}

WARPWRIGHT_END
