// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What this machine's GPUs are and reach, and what is unusual about them, as a page to send with a
// bug report:
//
//   device_report [report.html]
//
// It measures each GPU for some seconds, so nothing else should run on it.
#include <warpwright/measure/ceilings.hpp>
#include <warpwright/observe/monitor.hpp>

#include <cstdio>
#include <exception>
#include <fstream>
#include <string>
#include <vector>

namespace ww = warpwright;

namespace {

struct device_page {
  std::string title, text, unusual, svg;
};

std::string escaped(std::string const& text) {
  std::string all;
  for (char const c : text) {
    all += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  }
  return all;
}

// What a reader of a bug report must know before they believe a figure of it.
std::string unusual(ww::device_ceilings const& c, ww::gpu_sample const& now,
                    ww::monitor_statistics const& seen) {
  std::string all;
  auto const say = [&](bool holds, std::string const& what) {
    if (holds) all += "- " + what + "\n";
  };
  say(c.device.host_runtime, "not a GPU: warpwright's host runtime, whose times mean nothing");
  say(!seen.unavailable.empty(), "not known what the driver tells: " + seen.unavailable);
  say(c.device.mig, "a MIG instance: a part of the GPU");
  say(now.mig_mode.value_or(0) != 0, "the GPU is divided into MIG instances");
  say(now.mps_clients.value_or(0) != 0, "used through MPS, which other processes may share");
  say(now.processes.value_or(1) > 1,
      "shared: " + std::to_string(static_cast<int>(now.processes.value_or(1))) +
          " processes use it");
  say(now.ecc_uncorrected.value_or(0) != 0, "uncorrected errors of its memory (ECC)");
  say(seen.throttled_by.has_value() && *seen.throttled_by != ww::throttle_reasons::none,
      "slowed down while it was measured: " +
          ww::to_string(seen.throttled_by.value_or(ww::throttle_reasons::none)));
  std::string drifted;
  for (std::size_t i = 0; i < ww::limit_count; ++i) {
    ww::ceiling const& one = c.all[i];
    if (one.value > 0.0 && !one.converged) {
      drifted +=
          std::string{drifted.empty() ? "" : ", "} + ww::to_string(static_cast<ww::limit>(i));
    }
  }
  say(!drifted.empty(), "drifted while it was measured: " + drifted);
  return all.empty() ? "- nothing\n" : all;
}

device_page report_of(ww::device_id device) {
  ww::scoped_device const current{device};
  ww::monitor watch{ww::monitor_options{}.device(device).every(0.2).processes(true)};
  ww::stream stream;
  ww::device_ceilings const c = ww::measure_ceilings(stream);
  ww::gpu_sample const now = watch.sample();
  device_page page;
  page.title = "device " + std::to_string(device.value()) + ": " + c.device.name;
  ww::architecture const* const a = ww::find_architecture(c.gpu.major, c.gpu.minor);
  page.text = ww::to_text(c) + "memory       " + std::to_string(c.gpu.memory_bytes >> 20U) +
              " MiB, L2 " + std::to_string(c.gpu.l2_bytes >> 20U) + " MiB, PCI " +
              c.device.pci_address + "\n";
  if (a != nullptr) {
    page.text += "limits       " + std::to_string(a->max_warps_per_multiprocessor) + " warps, " +
                 std::to_string(a->max_blocks_per_multiprocessor) + " blocks and " +
                 std::to_string(a->shared_bytes_per_multiprocessor >> 10U) +
                 " KiB of shared memory a multiprocessor\n";
  }
  page.text += "\n" + ww::to_text(now);
  page.unusual = unusual(c, now, watch.statistics());
  page.svg = ww::to_svg(c, {}, page.title);
  return page;
}

void write_html(char const* path, std::vector<device_page> const& pages) {
  std::ofstream file{path};
  file << "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" "
          "content=\"width=device-width\"><title>Devices</title>\n<style>:root{color-scheme:light "
          "dark}body{font:16px system-ui,sans-serif;max-width:60rem;margin:auto;padding:1rem}"
          "pre{overflow-x:auto}.text{white-space:pre-wrap}svg{max-width:100%;height:auto}</"
          "style>\n<h1>Devices</h1>\n";
  for (device_page const& page : pages) {
    file << "<h2>" << escaped(page.title) << "</h2>\n<h3>Unusual</h3>\n<pre class=\"text\">"
         << escaped(page.unusual) << "</pre>\n<h3>Ceilings</h3>\n<pre>" << escaped(page.text)
         << "</pre>\n"
         << page.svg;
  }
  file.close();
  if (!file) throw std::runtime_error{std::string{"cannot write "} + path};
}

}  // namespace

int main(int count, char** arguments) {
  try {
    std::vector<device_page> pages;
    for (int i = 0; i < ww::device_count(); ++i) {
      pages.push_back(report_of(ww::device_id{i}));
      std::printf("%s\n\nunusual:\n%s\n%s\n", pages.back().title.c_str(),
                  pages.back().unusual.c_str(), pages.back().text.c_str());
    }
    if (pages.empty()) throw std::runtime_error{"there is no device: see whether nvidia-smi works"};
    if (count > 1) write_html(arguments[1], pages);
    return 0;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
