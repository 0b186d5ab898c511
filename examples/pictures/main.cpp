// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The means and deviations of all PNG files of a folder: threads decode them ahead, the device
// normalises them batch by batch, and the results come back behind. A broken file stops nothing: it
// is named at the end, and the exit status is 1.
#include "options.hpp"
#include "picture.hpp"
#include "statistics.hpp"

#include <warpwright/core/device.hpp>
#include <warpwright/memory/pinned.hpp>
#include <warpwright/stream/collect.hpp>
#include <warpwright/stream/prefetch.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

namespace {

using pictures::picture_bytes;
namespace fs = std::filesystem;
namespace ww = warpwright;

// What is known of a file. Written by the worker that decodes it, then by the thread of the
// results.
struct row {
  std::string path;
  std::string error;  // empty: it was decoded
  std::size_t width = 0;
  std::size_t height = 0;
  std::uint64_t sum = 0;  // of its bytes after resizing, on the host
  pictures::summary found;
};

std::vector<row> list_files(std::string const& folder) {
  std::vector<row> rows;
  for (fs::directory_entry const& entry : fs::directory_iterator{folder}) {
    std::string const extension = entry.path().extension().string();
    if (entry.is_regular_file() && (extension == ".png" || extension == ".PNG")) {
      rows.emplace_back().path = entry.path().string();
    }
  }
  std::sort(rows.begin(), rows.end(), [](row const& a, row const& b) { return a.path < b.path; });
  return rows;
}

// Never throws: an exception would take the place of the whole batch.
void decode(row& file, unsigned char* to) noexcept {
  try {
    try {
      pictures::picture const read = pictures::read_png(file.path);
      file.width = read.width;
      file.height = read.height;
      file.sum = pictures::resize(read, to);
    } catch (std::exception const& error) {
      std::memset(to, 0, picture_bytes);
      file.error = error.what();
    }
  } catch (...) {  // no memory even for the message
    file.error = "?";
  }
}

// Fills the rows, and prints what limited the speed.
void summarise(std::vector<row>& rows, pictures::options const& options) {
  std::size_t const batch_pictures = (std::min)(options.batch, rows.size());
  auto const fill = [&](unsigned char* to, std::size_t batch) -> std::size_t {
    std::size_t const first = batch * batch_pictures;
    if (first >= rows.size()) return 0;
    std::size_t const count = (std::min)(batch_pictures, rows.size() - first);
    for (std::size_t i = 0; i < count; ++i) decode(rows[first + i], to + i * picture_bytes);
    return count * picture_bytes;
  };
  auto const keep = [&](double const* from, std::size_t size, std::size_t batch) {
    std::size_t const count = size / pictures::batch_statistics::values;
    for (std::size_t i = 0; i < count; ++i) {
      rows[batch * batch_pictures + i].found = pictures::batch_statistics::result(from, count, i);
    }
  };

  ww::memory_pool pool{ww::current_device()};
  ww::pinned_pool pinned;
  ww::stream stream;
  pictures::batch_statistics statistics{pool, stream, batch_pictures};
  ww::result_collector<double> results{pool, pinned,
                                       batch_pictures * pictures::batch_statistics::values, keep};
  ww::prefetcher<unsigned char> input{pool, pinned, batch_pictures * picture_bytes, fill,
                                      ww::prefetch_options{}.workers(options.workers)};
  while (auto const batch = input.next(stream)) {
    std::size_t const count = batch.size() / picture_bytes;
    ww::result_slot<double> result = results.next(stream);
    result.set_size(count * pictures::batch_statistics::values);
    statistics.run(stream, batch.data(), result.data(), count);
  }
  results.finish();
  std::printf("%s%s", input.statistics().to_text().c_str(), results.statistics().to_text().c_str());
}

// @return whether the device has the sum of each picture, and the statistics of every fourth
bool verify(std::vector<row> const& rows) {
  std::size_t wrong = 0;
  std::vector<unsigned char> bytes(picture_bytes);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    row const& file = rows[i];
    if (!file.error.empty()) continue;
    bool right = static_cast<std::uint64_t>(file.found.sum) == file.sum;
    if (right && i % 4 == 0) {
      pictures::resize(pictures::read_png(file.path), bytes.data());
      right = pictures::agree(file.found, pictures::summary_on_host(bytes.data()));
    }
    if (right) continue;
    ++wrong;
    std::fprintf(stderr, "%s: the device has other statistics than the host\n", file.path.c_str());
  }
  return wrong == 0;
}

void print_table(std::vector<row> const& rows) {
  constexpr std::size_t most = 10;
  std::printf("%-24s %11s %15s %15s %15s\n", "mean, deviation", "pixels", "red", "green", "blue");
  for (std::size_t i = 0; i < rows.size() && i < most; ++i) {
    row const& file = rows[i];
    std::string const name = fs::path{file.path}.filename().string();
    if (!file.error.empty()) {
      std::printf("%-24s broken\n", name.c_str());
      continue;
    }
    std::printf("%-24s %5zu x %-5zu", name.c_str(), file.width, file.height);
    for (std::size_t c = 0; c < pictures::channels; ++c) {
      std::printf(" %7.3f %7.3f", file.found.mean[c], file.found.deviation[c]);
    }
    std::printf("\n");
  }
  if (rows.size() > most) std::printf("and %zu more\n", rows.size() - most);
}

int read_folder(pictures::options const& options) {
  std::vector<row> rows = list_files(options.folder);
  if (rows.empty()) {
    std::fprintf(stderr, "%s: no .png file\n", options.folder.c_str());
    return 1;
  }
  summarise(rows, options);
  bool const right = verify(rows);
  print_table(rows);
  std::vector<std::uint64_t> sums;
  for (row const& file : rows) {
    if (file.error.empty()) {
      sums.push_back(static_cast<std::uint64_t>(file.found.sum));
    } else {
      std::fprintf(stderr, "%s: %s\n", file.path.c_str(), file.error.c_str());
    }
  }
  std::printf("checksum %016llx of %zu pictures\n",
              static_cast<unsigned long long>(pictures::checksum(sums)), sums.size());
  return right && sums.size() == rows.size() ? 0 : 1;
}

int make_folder(pictures::options const& options) {
  fs::create_directories(options.folder);
  std::vector<std::uint64_t> sums;
  std::vector<unsigned char> bytes(picture_bytes);
  for (std::size_t i = 0; i < options.make; ++i) {
    std::string const digits = std::to_string(10000 + i).substr(1);
    pictures::picture const made = pictures::make_picture(i);
    pictures::write_png((fs::path{options.folder} / ("picture_" + digits + ".png")).string(), made);
    sums.push_back(pictures::resize(made, bytes.data()));
  }
  std::printf("checksum %016llx of %zu pictures\n",
              static_cast<unsigned long long>(pictures::checksum(sums)), sums.size());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    pictures::options const options = pictures::parse_options(argc, argv);
    return options.make != 0 ? make_folder(options) : read_folder(options);
  } catch (pictures::usage_error const& error) {
    std::fprintf(stderr, "%s\n%s", error.what(), pictures::usage);
    return 2;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
