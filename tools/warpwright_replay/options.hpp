// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The command line.
#pragma once

#include "replay.hpp"

#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace replay {

/// An invalid command line.
struct usage_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The pool's defaults. On the host runtime a longer wait, because a device is a thread there,
/// which the system may deschedule for longer than a pool waits before it grows.
inline ww::memory_pool_options default_pool_options() {
  ww::memory_pool_options options;
#if WARPWRIGHT_HOST_RUNTIME
  options = options.max_wait_seconds(1.0);
#endif
  return options;
}

/// The parsed command line.
struct options {
  bool help = false;
  bool pool = true;
  bool async = true;
  bool best_fit = true;
  bool statistics = false;  ///< whether to print the allocator's counters
  replay_settings settings;
  ww::memory_pool_options pool_options = default_pool_options();
  std::string html;  ///< empty: none
  std::vector<std::string> files;
};

/// The text of --help.
inline constexpr char const* usage =
    R"(usage: warpwright_replay [options] FILE...

Replays allocation traces (warpwright's CSV or an RMM log, plain or gzip) and checks the allocator.
One line a trace and allocator; sizes in bytes:
  trace=NAME allocator=NAME ops=N peak_live=N peak_reserved=N ratio=X ns_per_op=X cuda_calls_per_op=X

  --allocator NAME     pool, async (cudaMallocAsync), best_fit (the reference) or all (all)
  --threads            one thread a stream; otherwise one thread for all
  --repeat N           passes over the trace, 1 to 1000 (1); above 1, time is measured from the second on
  --verify LEVEL       what is written into each block and checked before its free: none,
                       ends (256 bytes at the start, the middle and the end) or full (ends)
  --ahead N            operations that the device may be behind the host while memory is measured
                       (64); 0: no limit
  --html FILE          writes a page of memory over time; of several traces, one page each, with
                       the trace's name before FILE's ending
  --statistics         a second, indented line with the pool's counters of the first replay
  --pool-option K=V    an option of the pool; may be repeated: growth_bytes, growth_factor, cache_bytes, max_bytes,
                       max_fraction, initial_bytes, max_wait_seconds, slack (FRACTION or FRACTION:BYTES), source,
                       order (grow_before_wait, wait_before_grow)
  --help               this text

Exit status: 0 success; 1 an allocator failed, or output could not be written; 2 a trace or the command line is invalid.
)";

namespace detail {

inline std::uint64_t integer(std::string const& flag, std::string const& text, std::uint64_t low,
                             std::uint64_t high) {
  std::uint64_t value = 0;
  bool const number = text.size() < 20 && text.find('x') == std::string::npos &&
                      text.find('X') == std::string::npos && parse_number(text, value);
  if (!number || value < low || value > high) {
    throw usage_error{flag + " needs an integer of " + std::to_string(low) + " to " +
                      std::to_string(high) + ", not \"" + text + '"'};
  }
  return value;
}

inline std::uint64_t byte_size(std::string const& flag, std::string const& text) {
  std::size_t const digits = text.find_first_not_of("0123456789");
  std::string const unit = digits == std::string::npos ? "" : text.substr(digits);
  std::uint64_t value = 0;
  std::uint64_t scale = 0;
  if (unit.empty() || unit == "B") scale = 1;
  if (unit == "KiB") scale = std::uint64_t{1} << 10U;
  if (unit == "MiB") scale = std::uint64_t{1} << 20U;
  if (unit == "GiB") scale = std::uint64_t{1} << 30U;
  if (scale == 0 || !parse_number(text.substr(0, digits), value) ||
      value > (~std::uint64_t{0} >> 1U) / scale) {
    throw usage_error{flag + " needs a size such as 64MiB, not \"" + text + '"'};
  }
  return value * scale;
}

// @param zero  whether 0 is valid
inline double real(std::string const& flag, std::string const& text, bool zero, unsigned high) {
  char* end = nullptr;
  double const value = std::strtod(text.c_str(), &end);
  bool const number = !text.empty() && text[0] >= '0' && text[0] <= '9' && *end == '\0';
  if (!number || !(value <= high) || (!zero && !(value > 0.0))) {
    throw usage_error{flag + " needs a number " + (zero ? "of 0 to " : "above 0, at most ") +
                      std::to_string(high) + ", such as 0.5, not \"" + text + '"'};
  }
  return value;
}

inline void set_pool_option(ww::memory_pool_options& pool, std::string const& text) {
  std::size_t const equals = text.find('=');
  if (equals == std::string::npos) {
    throw usage_error{"--pool-option needs KEY=VALUE, not \"" + text + '"'};
  }
  std::string const key = text.substr(0, equals);
  std::string const value = text.substr(equals + 1);
  std::string const flag = "--pool-option " + key;
  if (key == "growth_bytes") {
    pool = pool.growth_bytes(byte_size(flag, value));
  } else if (key == "cache_bytes") {
    pool = pool.cache_bytes(byte_size(flag, value));
  } else if (key == "max_wait_seconds") {
    pool = pool.max_wait_seconds(real(flag, value, true, 1000));
  } else if (key == "source") {
    if (value != "automatic" && value != "virtual_memory" && value != "cuda_malloc" &&
        value != "cuda_malloc_async") {
      throw usage_error{flag +
                        " needs automatic, virtual_memory, cuda_malloc or cuda_malloc_async, not "
                        "\"" +
                        value + '"'};
    }
    pool = pool.source(value == "automatic"        ? ww::memory_source::automatic
                       : value == "virtual_memory" ? ww::memory_source::virtual_memory
                       : value == "cuda_malloc"    ? ww::memory_source::cuda_malloc
                                                   : ww::memory_source::cuda_malloc_async);
  } else if (key == "slack") {
    std::size_t const colon = value.find(':');
    std::size_t const floor_bytes =
        colon == std::string::npos ? 0 : byte_size(flag, value.substr(colon + 1));
    pool = pool.slack(real(flag, value.substr(0, colon), true, 16), floor_bytes);
  } else if (key == "growth_factor") {
    pool = pool.growth_factor(real(flag, value, true, 16));
  } else if (key == "max_bytes") {
    pool = pool.max_bytes(byte_size(flag, value));
  } else if (key == "max_fraction") {
    pool = pool.max_fraction(real(flag, value, false, 1));
  } else if (key == "initial_bytes") {
    pool = pool.initial_bytes(byte_size(flag, value));
  } else if (key == "order") {
    if (value != "grow_before_wait" && value != "wait_before_grow") {
      throw usage_error{flag + " needs grow_before_wait or wait_before_grow, not \"" + value + '"'};
    }
    pool = pool.order(value == "grow_before_wait" ? ww::reuse_order::grow_before_wait
                                                  : ww::reuse_order::wait_before_grow);
  } else {
    throw usage_error{"--pool-option: unknown option \"" + key + "\"; try --help"};
  }
}

}  // namespace detail

/// Reads the command line.
/// @throws usage_error  naming the flag and the value
inline options parse_options(int argc, char const* const* argv) {
  options parsed;
  bool only_files = false;
  for (int i = 1; i < argc; ++i) {
    std::string const flag{argv[i]};
    if (only_files || flag.empty() || flag[0] != '-') {
      parsed.files.push_back(flag);
      continue;
    }
    if (flag == "--") {
      only_files = true;
      continue;
    }
    if (flag == "--help") {
      parsed.help = true;
      continue;
    }
    if (flag == "--threads") {
      parsed.settings.threads = true;
      continue;
    }
    if (flag == "--statistics") {
      parsed.statistics = true;
      continue;
    }
    bool const known = flag == "--allocator" || flag == "--repeat" || flag == "--verify" ||
                       flag == "--ahead" || flag == "--html" || flag == "--pool-option";
    if (!known) throw usage_error{"unknown argument \"" + flag + "\"; try --help"};
    if (i + 1 == argc) throw usage_error{flag + " needs a value; try --help"};
    std::string const value{argv[++i]};
    if (flag == "--allocator") {
      if (value != "pool" && value != "async" && value != "best_fit" && value != "all") {
        throw usage_error{"--allocator needs pool, async, best_fit or all, not \"" + value + '"'};
      }
      parsed.pool = value == "pool" || value == "all";
      parsed.async = value == "async" || value == "all";
      parsed.best_fit = value == "best_fit" || value == "all";
    } else if (flag == "--repeat") {
      parsed.settings.repeat = static_cast<unsigned>(detail::integer(flag, value, 1, 1000));
    } else if (flag == "--ahead") {
      parsed.settings.ahead = static_cast<unsigned>(detail::integer(flag, value, 0, 1000000));
    } else if (flag == "--verify") {
      if (value != "none" && value != "ends" && value != "full") {
        throw usage_error{"--verify needs none, ends or full, not \"" + value + '"'};
      }
      parsed.settings.verify = value == "none"   ? verify_level::none
                               : value == "ends" ? verify_level::ends
                                                 : verify_level::full;
    } else if (flag == "--html") {
      if (value.empty()) throw usage_error{"--html needs a path"};
      parsed.html = value;
      parsed.settings.samples = 1500;
    } else {
      detail::set_pool_option(parsed.pool_options, value);
    }
  }
  if (!parsed.help && parsed.files.empty()) {
    throw usage_error{"no trace given; try --help"};
  }
  return parsed;
}

}  // namespace replay
