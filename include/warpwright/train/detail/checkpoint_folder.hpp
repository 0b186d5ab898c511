// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/sort.hpp>
#include <warpwright/core/detail/text/line_fields.hpp>
#include <warpwright/train/detail/safetensors.hpp>

#include <cstdlib>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

WARPWRIGHT_BEGIN

namespace detail {

/// The files of a run's checkpoints.
class checkpoint_folder {
 public:
  checkpoint_folder(std::string path, file_operations const& operations)
      : path_{std::move(path)}, operations_{operations} {}

  [[nodiscard]] std::string path(std::string const& name) const { return path_ + '/' + name; }
  [[nodiscard]] std::string const& path() const noexcept { return path_; }
  static std::string stem(std::uint64_t step) {
    std::string const digits = std::to_string(step);
    return "step-" + std::string(digits.size() < 12 ? 12 - digits.size() : 0, '0') + digits;
  }

  /// What a manifest tells of its checkpoint.
  struct manifest {
    std::string file;
    std::uint64_t bytes = 0;
    std::uint64_t crc = 0;
  };
  static constexpr std::uint64_t version = 1;

  [[nodiscard]] static std::string manifest_text(std::uint64_t step, manifest const& m) {
    std::string line;
    append_field(line, "warpwright_checkpoint", std::size_t{version});
    append_field(line, "step", step);
    append_field(line, "file", m.file);
    append_field(line, "bytes", m.bytes);
    append_field(line, "crc32c", m.crc);
    append_field(line, "crc32c_of_this_line", std::size_t{crc32c(line.data(), line.size())});
    return line + '\n';
  }
  /// @throws checkpoint_error  if it is damaged; newer_version: it is of a newer version
  [[nodiscard]] manifest read_manifest(std::uint64_t step) const {
    safetensors_file file{operations_, path(stem(step) + ".manifest").c_str()};
    std::string all(file.bytes() < 4096 ? file.bytes() : 4096, '\0');
    file.read(0, &all[0], all.size());
    line_reader line{{all.data(), all.data() + all.size()}};
    manifest m;
    std::uint64_t format = 0;
    std::uint64_t same = 0;
    if (line.take_integer("warpwright_checkpoint", format) && format > version) {
      throw newer_version{};
    }
    line.take_integer("step", same);
    line.take_text("file", m.file);
    line.take_integer("bytes", m.bytes);
    line.take_integer("crc32c", m.crc);
    if (line.failed() != nullptr || manifest_text(step, m) != all || same != step) {
      throw checkpoint_error{"its manifest is damaged"};
    }
    return m;
  }
  struct newer_version {};

  /// Calls `visit(name, step)` for the files of checkpoints. @return 0, or an errno
  template <class Visit>
  [[nodiscard]] int for_each_file(Visit&& visit) const {
    DIR* const folder = ::opendir(path_.c_str());
    if (folder == nullptr) return errno;
    struct closed {
      DIR* folder;
      ~closed() { ::closedir(folder); }
    } const at_end{folder};
    while (dirent const* const entry = ::readdir(folder)) {
      char const* const name = entry->d_name;
      if (std::strncmp(name, "step-", 5) != 0 || !is_digit(name[5])) continue;
      visit(std::string{name}, std::uint64_t{std::strtoull(name + 5, nullptr, 10)});
    }
    return 0;
  }
  /// @param steps  gets the steps that have a manifest, the newest first. @return 0, or an errno
  [[nodiscard]] int find_steps(array<std::uint64_t>& steps) const {
    steps.clear();
    int const error = for_each_file([&](std::string const& name, std::uint64_t step) {
      if (name == stem(step) + ".manifest") steps.push_back(step);
    });
    sort(steps.begin(), steps.size(), [](std::uint64_t a, std::uint64_t b) { return a > b; });
    return error;
  }

  /// Removes all but the newest checkpoints, from `step` down, and what is incomplete.
  /// @param file  of the checkpoint at `step`
  void rotate(std::uint64_t step, std::string const& file, std::size_t kept) const {
    array<std::uint64_t> steps;
    if (find_steps(steps) != 0) return;
    std::size_t newer = 0;
    while (newer != steps.size() && steps[newer] > step) ++newer;
    steps.remove_front(newer);
    std::size_t const left = steps.size() < kept ? steps.size() : kept;
    for (bool const manifests : {true, false}) {  // a manifest goes before what it names
      static_cast<void>(for_each_file([&](std::string const& name, std::uint64_t of) {
        bool stays = false;
        for (std::size_t i = 0; i < left; ++i) stays = stays || steps[i] == of;
        bool const is_manifest = name == stem(of) + ".manifest";
        stays = stays && (is_manifest || (of == step ? name == file : !ends_with(name, ".tmp")));
        if (!stays && is_manifest == manifests) {
          static_cast<void>(operations_.remove(operations_.context, path(name).c_str()));
        }
      }));
    }
  }

  [[nodiscard]] int sync() const {
    errno = 0;
    return error_of(operations_.sync_folder(operations_.context, path_.c_str()) != 0);
  }

  /// Keeps other processes from writing to the folder.
  class lock : noncopyable {
   public:
    /// Makes the folder. @throws checkpoint_error  if it cannot be written to
    explicit lock(std::string const& path) {
      if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) {
        throw checkpoint_error{"cannot make the folder '" + path + "': " + std::strerror(errno)};
      }
      descriptor_ = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
      if (descriptor_ < 0) {
        throw checkpoint_error{"cannot open the folder '" + path + "': " + std::strerror(errno)};
      }
      // Some network file systems have no locks.
      if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
      ::close(descriptor_);
      throw checkpoint_error{"another process is writing to the folder '" + path +
                             "'; give each run a folder of its own"};
    }
    ~lock() { ::close(descriptor_); }

   private:
    int descriptor_ = -1;
  };

 private:
  static bool ends_with(std::string const& name, char const* end) {
    std::size_t const n = std::strlen(end);
    return name.size() >= n && name.compare(name.size() - n, n, end) == 0;
  }

  std::string path_;
  file_operations const& operations_;
};

}  // namespace detail

WARPWRIGHT_END
