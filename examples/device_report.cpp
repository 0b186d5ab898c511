// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What this machine's GPUs are and reach, and what is unusual about them, as a page to send with a
// bug report:
//
//   device_report [report.html]
//
// It measures each GPU for some seconds, so nothing else should run on it.
#include <warpwright/core/detail/device/nvml.hpp>
#include <warpwright/core/detail/report/html_style.hpp>
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
  std::string title, unusual, identity, ceilings, now, svg;
  bool measured = false;

  void say(bool holds, std::string const& what) {
    if (holds) unusual += "- " + what + "\n";
  }
};

// What a reader of a bug report must know before they believe a figure of it.
void say_device(device_page& page, ww::device_info const& device) {
  page.say(device.host_runtime, "not a GPU: warpwright's host runtime, whose times mean nothing");
  page.say(device.mig, "a MIG instance: a part of the GPU");
}

void say_ceilings(device_page& page, ww::device_ceilings const& c) {
  std::string drifted;
  for (std::size_t i = 0; i < ww::limit_count; ++i) {
    ww::ceiling const& one = c.all[i];
    if (one.value > 0.0 && !one.converged) {
      drifted +=
          std::string{drifted.empty() ? "" : ", "} + ww::to_string(static_cast<ww::limit>(i));
    }
  }
  page.say(!drifted.empty(), "drifted while it was measured: " + drifted);
  for (ww::device_ceilings::peer const& p : c.peers) {
    page.say(!p.direct, "copies to device " + std::to_string(p.to) + " go through the host");
  }
}

void say_driver(device_page& page, ww::gpu_sample const& now, ww::monitor_statistics const& seen) {
  auto const count = [](ww::gpu_sample::figure const& figure) {
    return std::to_string(static_cast<long long>(figure.value_or(0)));
  };
  page.say(!seen.unavailable.empty(), "not known what the driver tells: " + seen.unavailable);
  page.say(now.mig_mode.value_or(0) != 0, "the GPU is divided into MIG instances");
  page.say(now.mps_clients.value_or(0) != 0, "used through MPS, which other processes may share");
  page.say(now.processes.value_or(1) > 1, "shared: " + count(now.processes) + " processes use it");
  page.say(now.ecc_uncorrected.value_or(0) != 0,
           count(now.ecc_uncorrected) + " uncorrected errors of its memory (ECC)");
  page.say(now.ecc_corrected.value_or(0) != 0,
           count(now.ecc_corrected) + " corrected errors of its memory (ECC)");
  auto const slowed = seen.throttled_by.value_or(ww::throttle_reasons::none);
  page.say(slowed != ww::throttle_reasons::none,
           "slowed down while it was measured: " + ww::to_string(slowed));

  ww::detail::nvml_library nvml;
  void* gpu = nullptr;
  if (!nvml.open(seen.uuid.c_str(), gpu).empty()) return;
  int ecc = 1, pending = 1;
  nvml.call(nvml.find("nvmlDeviceGetEccMode"), gpu, &ecc, &pending);
  page.say(ecc == 0, "error correction (ECC) of its memory is off");
  unsigned generation = 0, width = 0;
  nvml.call(nvml.find("nvmlDeviceGetMaxPcieLinkGeneration"), gpu, &generation);
  nvml.call(nvml.find("nvmlDeviceGetMaxPcieLinkWidth"), gpu, &width);
  // The most that was seen: an idle GPU lowers it.
  page.say(seen.max.pcie_generation.value_or(generation) < generation,
           "its PCIe link is of generation " + count(seen.max.pcie_generation) + ", of " +
               std::to_string(generation) + " that are possible");
  page.say(
      seen.max.pcie_width.value_or(width) < width,
      "its PCIe link has " + count(seen.max.pcie_width) + " lanes of " + std::to_string(width));
}

std::string identity_of(ww::device_info const& d) {
  auto const version = [](int v) {
    return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10);
  };
  std::string text = "uuid    " + d.uuid + ", PCI " + d.pci_address + "\ndriver  of CUDA " +
                     version(d.driver_version) + ", runtime " + version(d.runtime_version) +
                     "\nmemory  " + std::to_string(d.memory_free_bytes >> 20U) + " of " +
                     std::to_string(d.memory_total_bytes >> 20U) + " MiB free, L2 " +
                     std::to_string(d.l2_bytes >> 20U) + " MiB\nlimits  sm_" +
                     std::to_string(d.compute_capability_major) +
                     std::to_string(d.compute_capability_minor) + ", " +
                     std::to_string(d.multiprocessor_count) + " multiprocessors";
  ww::architecture const* const a =
      ww::find_architecture(d.compute_capability_major, d.compute_capability_minor);
  if (a != nullptr) {
    text += ", each " + std::to_string(a->max_warps_per_multiprocessor) + " warps, " +
            std::to_string(a->max_blocks_per_multiprocessor) + " blocks, " +
            std::to_string(a->shared_bytes_per_multiprocessor >> 10U) + " KiB of shared memory";
  }
  return text + "\n";
}

// Goes on with what is known where a step fails.
template <class Step>
bool attempt(device_page& page, char const* what, Step const& step) {
  try {
    step();
    return true;
  } catch (std::exception const& error) {
    page.say(true, std::string{what} + " failed: " + error.what());
    return false;
  }
}

device_page report_of(ww::device_id device) {
  device_page page;
  page.title = "device " + std::to_string(device.value());
  attempt(page, "the query of the device", [&] {
    ww::device_info const d = ww::get_device_info(device);
    page.title += ": " + d.name;
    page.identity = identity_of(d);
    say_device(page, d);
  });
  attempt(page, "the query of the driver", [&] {
    ww::monitor watch{ww::monitor_options{}.device(device).every(0.2).processes(true)};
    page.measured = attempt(page, "measuring", [&] {
      ww::scoped_device const current{device};
      ww::device_ceilings const c = ww::measure_ceilings(ww::stream{});
      page.ceilings = ww::to_text(c);
      page.svg = ww::to_svg(c, {}, page.title);
      say_ceilings(page, c);
    });
    ww::gpu_sample const now = watch.sample();
    page.now = ww::to_text(now);
    say_driver(page, now, watch.statistics());
  });
  if (page.unusual.empty()) page.unusual = "- nothing\n";
  return page;
}

std::string escaped(std::string const& text) { return ww::detail::xml_text(text).str(); }

// The lines of to_text() as rows; the first is the device's.
std::string table_of(std::string const& text) {
  std::string rows;
  for (std::size_t at = text.find('\n') + 1; at < text.size(); at = text.find('\n', at) + 1) {
    std::string const line = text.substr(at, text.find('\n', at) - at);
    rows += "<tr><td class=\"text\">" + escaped(line.substr(0, 13)) + "<small>" +
            escaped(line.substr(40)) + "</small></td><td class=\"figure\">" +
            escaped(line.substr(13, 15)) + "</td><td class=\"figure\">" +
            escaped(line.substr(28, 10)) + "</td></tr>\n";
  }
  return "<table>\n" + rows + "</table>\n";
}

void write_html(char const* path, std::vector<device_page> const& pages) {
  std::ofstream file{path};
  file << "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta "
          "name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>Devices"
          "</title>\n<style>\n"
       << ww::detail::html_style_sheet().str()
       << "pre{white-space:pre-wrap;overflow-wrap:anywhere;font-size:.85rem}"
       << "pre.now{white-space:pre;overflow-x:auto}"
          "small{display:block;line-height:1.3;color:var(--muted)}"
          ".figure{white-space:nowrap}.chart{min-width:42rem}\n"
          "</style>\n</head>\n<body>\n<main>\n"
          "<h1>Devices</h1>\n";
  for (device_page const& page : pages) {
    file << "<h2>" << escaped(page.title) << "</h2>\n<pre>" << escaped(page.identity)
         << "</pre>\n<h2>Unusual</h2>\n<pre class=\"warning\">" << escaped(page.unusual)
         << "</pre>\n";
    if (page.measured) {
      file << "<h2>Ceilings</h2>\n"
           << table_of(page.ceilings) << "<div class=\"wide\"><div class=\"chart\">\n"
           << page.svg << "</div></div>\n";
    }
    file << "<h2>Now</h2>\n<pre class=\"now\">" << escaped(page.now) << "</pre>\n";
  }
  file << "</main>\n</body>\n</html>\n";
  file.close();
  if (!file) throw std::runtime_error{std::string{"cannot write "} + path};
}

}  // namespace

int main(int count, char** arguments) {
  try {
    std::vector<device_page> pages;
    bool measured = true;
    for (int i = 0; i < ww::device_count(); ++i) {
      pages.push_back(report_of(ww::device_id{i}));
      device_page const& page = pages.back();
      std::printf("%s\n%s\nunusual:\n%s\n%s\n%s\n", page.title.c_str(), page.identity.c_str(),
                  page.unusual.c_str(), page.ceilings.c_str(), page.now.c_str());
      measured = measured && page.measured;
    }
    if (pages.empty()) throw std::runtime_error{"there is no device: see whether nvidia-smi works"};
    if (count > 1) write_html(arguments[1], pages);
    return measured ? 0 : 1;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
