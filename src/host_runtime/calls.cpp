// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Every API call starts with enter(): it counts the call, injects the fault plan's faults, and
// returns the sticky error of a poisoned device.
#include "calls.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <locale>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <warpwright/core/detail/launch/host_launch.hpp>

#include "runtime.hpp"

namespace warpwright::host {
namespace {

std::mutex plan_mutex;  // protects the plans; never locked while user code runs
std::atomic<call_site*> newest_site{nullptr};  // list of the functions called so far, newest first
std::atomic<std::uint64_t> all_calls{0};

struct installed_rule {
  testing::fault_rule rule;
  std::uint64_t calls = 0;
  std::uint64_t state = 0;  // of the random number generator
};

struct installed_plan {
  std::vector<installed_rule> rules;
  std::atomic<std::uint64_t> hits{0};
  installed_plan* below = nullptr;
};

std::atomic<installed_plan*> top_plan{nullptr};

// splitmix64 (Steele, Lea, Flood, 2014): the same calls match on every machine.
double next_uniform(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15ULL;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1.0p-53;
}

installed_plan* install(testing::fault_plan const& plan) {
  auto* installed = new installed_plan;
  for (testing::fault_rule const& rule : plan.rules())
    installed->rules.push_back({rule, 0, rule.seed});
  tsan_ignore_scope tsan_ignore;
  std::lock_guard<std::mutex> lock(plan_mutex);
  installed->below = top_plan.load(std::memory_order_relaxed);
  top_plan.store(installed, std::memory_order_relaxed);
  return installed;
}

void list_site(call_site& site) {
  tsan_ignore_scope tsan_ignore;
  std::lock_guard<std::mutex> lock(plan_mutex);
  if (site.listed.load(std::memory_order_relaxed)) return;
  // The same function may have two sites (a name and an alias of it); they are merged by name.
  site.next = newest_site.load(std::memory_order_relaxed);
  newest_site.store(&site, std::memory_order_relaxed);
  site.listed.store(true, std::memory_order_relaxed);
}

// The effect of the installed plan on a call.
struct injected_fault {
  bool fail = false;
  bool poison = false;
  cudaError_t code = cudaSuccess;
  std::chrono::microseconds delay{0};
};

injected_fault match_rules(char const* name) {
  tsan_ignore_scope tsan_ignore;
  std::lock_guard<std::mutex> lock(plan_mutex);
  injected_fault result;
  installed_plan* plan = top_plan.load(std::memory_order_relaxed);
  if (plan == nullptr) return result;
  bool hit = false;
  for (installed_rule& entry : plan->rules) {
    testing::fault_rule const& rule = entry.rule;
    if (rule.call != "*" && rule.call != name) continue;
    std::uint64_t const call = ++entry.calls;
    if (call < rule.first || call > rule.last) continue;
    if (rule.probability < 1.0 && next_uniform(entry.state) >= rule.probability) continue;
    if (rule.effect == testing::fault_effect::delay) {
      result.delay += rule.duration;
      hit = true;
    } else if (!result.fail) {
      result.fail = true;
      result.poison = rule.effect == testing::fault_effect::poison;
      result.code = rule.code;
      hit = true;
    }
  }
  if (hit) plan->hits.fetch_add(1, std::memory_order_relaxed);
  return result;
}

}  // namespace

cudaError_t sticky_error(runtime& rt) noexcept {
  if (rt.devices.empty()) return cudaSuccess;
  auto const device = static_cast<std::size_t>(this_thread.device);
  if (device >= rt.devices.size()) return cudaSuccess;
  return static_cast<cudaError_t>(rt.devices[device]->sticky.load(std::memory_order_relaxed));
}

cudaError_t enter(call_site& site, needs what) {
  switch (current_phase.load(std::memory_order_relaxed)) {
    case phase::running:
      break;
    case phase::unloading:
      return cudaErrorCudartUnloading;
    case phase::forked:
      return cudaErrorInitializationError;
  }
  // Host functions and callbacks must not call the runtime (CUDA runtime API, cudaLaunchHostFunc).
  if (this_thread.inside_callback) return cudaErrorNotPermitted;
  runtime& rt = the_runtime();
  refresh_thread(rt);
  site.count.fetch_add(1, std::memory_order_relaxed);
  all_calls.fetch_add(1, std::memory_order_relaxed);
  if (!site.listed.load(std::memory_order_relaxed)) list_site(site);
  if (top_plan.load(std::memory_order_relaxed) != nullptr) {
    injected_fault const fault = match_rules(site.name);
    if (fault.delay.count() > 0) std::this_thread::sleep_for(fault.delay);
    if (fault.fail) {
      if (fault.poison) {
        auto const device = static_cast<std::size_t>(this_thread.device);
        if (device < rt.devices.size()) {
          rt.devices[device]->sticky.store(fault.code, std::memory_order_relaxed);
        }
      }
      return fault.code;
    }
  }
  if (what == needs::nothing) return cudaSuccess;
  if (rt.devices.empty()) return cudaErrorNoDevice;
  return sticky_error(rt);
}

std::vector<testing::call_record> list_calls() {
  tsan_ignore_scope tsan_ignore;
  std::lock_guard<std::mutex> lock(plan_mutex);
  std::vector<testing::call_record> list;
  for (call_site* site = newest_site.load(std::memory_order_relaxed); site != nullptr;
       site = site->next) {
    std::uint64_t const count = site->count.load(std::memory_order_relaxed);
    if (count > 0) list.push_back({site->name, count});
  }
  std::reverse(list.begin(), list.end());
  return list;
}

void reset_calls() {
  tsan_ignore_scope tsan_ignore;
  std::lock_guard<std::mutex> lock(plan_mutex);
  // Also removes the sites from the list, so that it will be in the order of the next first calls.
  for (call_site* site = newest_site.load(std::memory_order_relaxed); site != nullptr;) {
    call_site* const next = site->next;
    site->count.store(0, std::memory_order_relaxed);
    site->next = nullptr;
    site->listed.store(false, std::memory_order_relaxed);
    site = next;
  }
  newest_site.store(nullptr, std::memory_order_relaxed);
  all_calls.store(0, std::memory_order_relaxed);
}

void install_permanently(testing::fault_plan const& plan) { install(plan); }

namespace {

constexpr char const* function_names[] = {
#include "function_names.inc"
};

// Levenshtein's distance: insertions, deletions and replacements of one character.
std::size_t edit_distance(std::string const& a, std::string const& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      std::size_t const replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = (std::min)({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

}  // namespace

std::string unknown_function(std::string const& name) {
  auto const known = [&](char const* each) { return name == each; };
  if (std::any_of(std::begin(function_names), std::end(function_names), known)) return {};
  char const* nearest = function_names[0];
  for (char const* const each : function_names) {
    if (edit_distance(name, each) < edit_distance(name, nearest)) nearest = each;
  }
  return '"' + name + "\" is none of the " + std::to_string(std::size(function_names)) +
         " functions whose calls the host runtime counts; the nearest name is \"" + nearest + '"';
}

}  // namespace warpwright::host

WARPWRIGHT_API cudaError_t warpwrightHostCountCall(char const* name) {
  using namespace warpwright::host;
  // Not the phase's codes: low numbers are the fault plan's, of the library's own errors.
  if (current_phase.load(std::memory_order_relaxed) != phase::running) return cudaErrorUnknown;
  call_site* site = nullptr;
  {
    tsan_ignore_scope tsan_ignore;
    static auto* const sites = new std::map<std::string, call_site>;  // never destroyed
    std::lock_guard<std::mutex> lock(plan_mutex);
    site = &sites->try_emplace(name, name).first->second;
  }
  return enter(*site, needs::nothing);
}

WARPWRIGHT_BEGIN
namespace testing {
namespace {

[[noreturn]] void fail_with(std::string const& text) {
  throw std::invalid_argument("warpwright::testing::fault_plan: " + text);
}

void check_call(std::string const& call) {
  if (call.empty())
    fail_with(
        "the name of the call is empty; pass the name of a runtime function, or \"*\" for any");
  if (call == "*") return;
  std::string const problem = host::unknown_function(call);
  if (!problem.empty()) fail_with(problem + ", and \"*\" is any");
}

void check_nth(std::uint64_t nth) {
  if (nth == 0) fail_with("call number 0; calls are counted from 1");
}

void check_code(cudaError_t code) {
  if (code == cudaSuccess) fail_with("cudaSuccess is not a fault; pass an error code");
}

void check_delay(std::chrono::microseconds duration) {
  if (duration.count() < 0) {
    fail_with("a delay of " + std::to_string(duration.count()) + " us; it must not be negative");
  }
}

constexpr std::uint64_t no_end = ~std::uint64_t{0};

// All error codes are below 1000.
cudaError_t read_code(std::string const& text, std::string const& rule) {
  if (!text.empty() && text.find_first_not_of("0123456789") == std::string::npos) {
    int const number = text.size() <= 4 ? std::atoi(text.c_str()) : 0;
    if (number > 0) return static_cast<cudaError_t>(number);
  }
  bool const may_be_name = text.rfind("cuda", 0) == 0;  // not "unrecognized error code"
  for (int number = 1; may_be_name && number < 1000; ++number) {
    auto const code = static_cast<cudaError_t>(number);
    if (text == cudaGetErrorName(code)) return code;
  }
  fail_with("rule \"" + rule + "\": \"" + text + "\" is not an error code's name or number");
}

std::uint64_t read_number(std::string const& text, std::string const& rule) {
  if (text.empty() || text.size() > 18 ||
      text.find_first_not_of("0123456789") != std::string::npos) {
    fail_with("rule \"" + rule + "\": \"" + text + "\" is not a number");
  }
  return std::strtoull(text.c_str(), nullptr, 10);
}

fault_plan parse_rule(fault_plan const& plan, std::string const& rule) {
  std::size_t const first = rule.find(':');
  std::size_t const second = first == std::string::npos ? first : rule.find(':', first + 1);
  if (second == std::string::npos) {
    fail_with("rule \"" + rule +
              "\" is malformed; the forms are call:n:code, call:n+:code, call:p0.01@seed:code, "
              "call:n:poison=code or call:*:delay=microseconds");
  }
  std::string const call = rule.substr(0, first);
  std::string const which = rule.substr(first + 1, second - first - 1);
  std::string const effect = rule.substr(second + 1);
  if (effect.rfind("delay=", 0) == 0) {
    auto const duration =
        std::chrono::microseconds(static_cast<std::int64_t>(read_number(effect.substr(6), rule)));
    return which == "*" ? plan.delay(call, duration)
                        : plan.delay(call, read_number(which, rule), duration);
  }
  if (effect.rfind("poison=", 0) == 0) {
    return plan.poison(call, read_number(which, rule), read_code(effect.substr(7), rule));
  }
  cudaError_t const code = read_code(effect, rule);
  if (which == "*") return plan.fail_from(call, 1, code);
  if (!which.empty() && which[0] == 'p') {
    std::size_t const at = which.find('@');
    std::string const probability_text = which.substr(1, at == std::string::npos ? at : at - 1);
    std::istringstream number(probability_text);
    number.imbue(std::locale::classic());
    double probability = 0.0;
    if (!(number >> probability) || number.peek() != std::istringstream::traits_type::eof())
      fail_with("rule \"" + rule + "\": \"" + probability_text + "\" is not a probability");
    std::uint64_t const seed =
        at == std::string::npos ? 0 : read_number(which.substr(at + 1), rule);
    return plan.fail_randomly(call, probability, code, seed);
  }
  if (!which.empty() && which.back() == '+') {
    return plan.fail_from(call, read_number(which.substr(0, which.size() - 1), rule), code);
  }
  return plan.fail(call, read_number(which, rule), code);
}

// Adds the rule's text to errors of fault_plan's member functions.
fault_plan parse_named(fault_plan const& plan, std::string const& rule) {
  try {
    return parse_rule(plan, rule);
  } catch (std::invalid_argument const& error) {
    std::string const text = error.what();
    if (text.find("rule \"" + rule + "\"") != std::string::npos) throw;
    throw std::invalid_argument(text + " (rule \"" + rule + "\")");
  }
}

}  // namespace

fault_plan fault_plan::with(fault_rule rule) const {
  fault_plan copy = *this;
  copy.rules_.push_back(std::move(rule));
  return copy;
}

fault_plan fault_plan::fail(std::string call, std::uint64_t nth, cudaError_t code) const {
  check_call(call);
  check_nth(nth);
  check_code(code);
  return with({std::move(call), fault_effect::fail, code, nth, nth, 1.0, 0, {}});
}

fault_plan fault_plan::fail_from(std::string call, std::uint64_t nth, cudaError_t code) const {
  check_call(call);
  check_nth(nth);
  check_code(code);
  return with({std::move(call), fault_effect::fail, code, nth, no_end, 1.0, 0, {}});
}

fault_plan fault_plan::fail_randomly(std::string call, double probability, cudaError_t code,
                                     std::uint64_t seed) const {
  check_call(call);
  check_code(code);
  if (!(probability >= 0.0 && probability <= 1.0)) {
    fail_with("probability " + std::to_string(probability) + " is outside [0, 1]");
  }
  return with({std::move(call), fault_effect::fail, code, 1, no_end, probability, seed, {}});
}

fault_plan fault_plan::poison(std::string call, std::uint64_t nth, cudaError_t code) const {
  check_call(call);
  check_nth(nth);
  check_code(code);
  return with({std::move(call), fault_effect::poison, code, nth, nth, 1.0, 0, {}});
}

fault_plan fault_plan::delay(std::string call, std::chrono::microseconds duration) const {
  check_call(call);
  check_delay(duration);
  return with({std::move(call), fault_effect::delay, cudaSuccess, 1, no_end, 1.0, 0, duration});
}

fault_plan fault_plan::delay(std::string call, std::uint64_t nth,
                             std::chrono::microseconds duration) const {
  check_call(call);
  check_nth(nth);
  check_delay(duration);
  return with({std::move(call), fault_effect::delay, cudaSuccess, nth, nth, 1.0, 0, duration});
}

fault_plan fault_plan::parse(std::string const& text) {
  fault_plan plan;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    std::size_t end = text.find_first_of(",;", begin);
    if (end == std::string::npos) end = text.size();
    if (end > begin) plan = parse_named(plan, text.substr(begin, end - begin));
    begin = end + 1;
  }
  return plan;
}

scoped_fault_plan::scoped_fault_plan(fault_plan const& plan) : installed_(host::install(plan)) {}

scoped_fault_plan::~scoped_fault_plan() {
  auto* plan = static_cast<host::installed_plan*>(installed_);
  host::tsan_ignore_scope tsan_ignore;
  {
    std::lock_guard<std::mutex> lock(host::plan_mutex);
    host::top_plan.store(plan->below, std::memory_order_relaxed);
  }
  delete plan;
}

std::uint64_t scoped_fault_plan::hits() const noexcept {
  return static_cast<host::installed_plan const*>(installed_)->hits.load(std::memory_order_relaxed);
}

std::uint64_t call_count(std::string const& name) {
  for (call_record const& call : host::list_calls()) {
    if (call.name == name) return call.count;
  }
  std::string const problem = host::unknown_function(name);
  if (!problem.empty()) {
    throw std::invalid_argument("warpwright::testing::call_count: " + problem);
  }
  return 0;
}

std::uint64_t total_calls() { return host::all_calls.load(std::memory_order_relaxed); }

std::vector<call_record> calls() { return host::list_calls(); }

void reset_call_counts() { host::reset_calls(); }

}  // namespace testing
WARPWRIGHT_END
