// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/container/sort.hpp>
#include <warpwright/core/detail/tensors/safetensors.hpp>
#include <warpwright/core/detail/text/line_fields.hpp>

#include <cstdlib>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

WARPWRIGHT_BEGIN

namespace detail {

/// The files of a run's checkpoints.
class checkpoint_folder : noncopyable {
 public:
  checkpoint_folder(std::string path, file_operations const& operations)
      : path_{std::move(path)}, operations_{operations} {
    char here[4096];
    if (path_[0] != '/' && ::getcwd(here, sizeof here) != nullptr) path_ = here + ('/' + path_);
  }

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
    safetensors_file file{operations_, path(stem(step) + ".manifest")};
    std::string all(file.bytes() < 4096 ? file.bytes() : 4096, '\0');
    file.read(0, &all[0], all.size());
    std::size_t const last = all.rfind("crc32c_of_this_line=");
    std::string end;
    if (last != std::string::npos) {
      append_field(end, "crc32c_of_this_line", std::size_t{crc32c(all.data(), last)});
      end += '\n';
    }
    line_reader line{{all.data(), all.data() + all.size()}};
    manifest m;
    std::uint64_t format = 0;
    std::uint64_t same = 0;
    line.take_integer("warpwright_checkpoint", format);
    bool const whole = line.failed() == nullptr && !end.empty() && all.substr(last) == end;
    if (whole && format > version) throw newer_version{};
    line.take_integer("step", same);
    line.take_text("file", m.file);
    line.take_integer("bytes", m.bytes);
    line.take_integer("crc32c", m.crc);
    if (!whole || line.failed() != nullptr || same != step) file.fail("is damaged");
    return m;
  }
  struct newer_version {};

  enum class kind { manifest, data, temporary };

  /// Calls `visit(name, step, kind)` for the files of checkpoints. @return 0, or an errno
  template <class Visit>
  [[nodiscard]] int for_each_file(Visit&& visit) const {
    DIR* const folder = ::opendir(path_.c_str());
    if (folder == nullptr) return errno;
    struct closed {
      DIR* folder;
      ~closed() { ::closedir(folder); }
    } const at_end{folder};
    for (;;) {
      errno = 0;
      dirent const* const entry = ::readdir(folder);
      if (entry == nullptr) return errno;
      std::string const name = entry->d_name;
      if (name.compare(0, 5, "step-") != 0) continue;
      std::uint64_t const step = std::strtoull(name.c_str() + 5, nullptr, 10);
      std::string const of = stem(step);
      if (name.compare(0, of.size(), of) != 0) continue;
      std::string const rest = name.substr(of.size());
      if (rest == ".manifest") {
        visit(name, step, kind::manifest);
      } else if (rest.size() == 21 && rest.find_first_not_of("0123456789abcdef", 1) == 9 &&
                 rest.compare(9, 12, ".safetensors") == 0) {
        visit(name, step, kind::data);
      } else if (ends_with(rest, ".tmp") && rest.find(".0x") != std::string::npos) {
        visit(name, step, kind::temporary);
      }
    }
  }
  /// @param steps  gets the steps that have a manifest, the newest first. @return 0, or an errno
  [[nodiscard]] int find_steps(array<std::uint64_t>& steps) const {
    steps.clear();
    int const error = for_each_file([&](std::string const&, std::uint64_t step, kind k) {
      if (k == kind::manifest) steps.push_back(step);
    });
    sort(steps.begin(), steps.size(), [](std::uint64_t a, std::uint64_t b) { return a > b; });
    return error;
  }

  /// Removes damaged checkpoints, all but the newest of the others up to `step`, and what is older.
  /// @param file  of the checkpoint at `step`
  void rotate(std::uint64_t step, std::string const& file, std::size_t kept,
              array<std::uint64_t> const& damaged) const {
    array<std::uint64_t> steps;
    if (find_steps(steps) != 0) return;
    std::uint64_t oldest = step;
    for (std::uint64_t const s : steps) {
      if (s > step || contains(damaged, s) || kept == 0) continue;
      oldest = s;
      --kept;
    }
    for (bool const manifests : {true, false}) {  // a manifest goes before what it names
      static_cast<void>(for_each_file([&](std::string const& name, std::uint64_t of, kind k) {
        bool const goes =
            of == step ? k == kind::data && name != file : of < oldest || contains(damaged, of);
        if (goes && (k == kind::manifest) == manifests) remove(name);
      }));
    }
  }
  /// Removes what processes have left that were killed. @pre no other writes
  void remove_temporaries() const {
    static_cast<void>(for_each_file([&](std::string const& name, std::uint64_t, kind k) {
      if (k == kind::temporary) remove(name);
    }));
  }
  void remove(std::string const& name) const noexcept {
    static_cast<void>(operations_.remove(operations_.context, path(name).c_str()));
  }
  static bool contains(array<std::uint64_t> const& steps, std::uint64_t step) noexcept {
    for (std::uint64_t const s : steps) {
      if (s == step) return true;
    }
    return false;
  }

  [[nodiscard]] int sync() const {
    errno = 0;
    return error_of(operations_.sync_folder(operations_.context, path_.c_str()) != 0);
  }

  /// Makes the folder, and keeps others from writing to it as long as this object lives.
  /// @throws checkpoint_error  if it cannot be written to
  void lock() {
    if (::mkdir(path_.c_str(), 0777) != 0 && errno != EEXIST) fail("cannot make the folder");
    struct stat now;
    struct stat locked;
    if (lock_ >= 0 && ::stat(path_.c_str(), &now) == 0 && ::fstat(lock_, &locked) == 0 &&
        now.st_ino == locked.st_ino && now.st_dev == locked.st_dev) {
      return;
    }
    unlock();  // of a folder that was removed
    lock_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock_ < 0) fail("cannot open the folder");
    if (::flock(lock_, LOCK_EX | LOCK_NB) == 0) {
      remove_temporaries();
    } else if (errno == EWOULDBLOCK) {  // some network file systems have no locks
      unlock();
      throw checkpoint_error{"another process or writer saves to the folder '" + path_ +
                             "'; give each run a folder of its own"};
    }
  }
  ~checkpoint_folder() { unlock(); }

 private:
  static bool ends_with(std::string const& name, char const* end) {
    std::size_t const n = std::strlen(end);
    return name.size() >= n && name.compare(name.size() - n, n, end) == 0;
  }

  [[noreturn]] void fail(char const* what) const {
    throw checkpoint_error{what + (" '" + path_ + "': ") + std::strerror(errno)};
  }
  void unlock() noexcept {
    if (lock_ >= 0) {
      // Children of fork() have the descriptor, too: to close it here would leave the lock to them.
      static_cast<void>(::flock(lock_, LOCK_UN));
      ::close(lock_);
    }
    lock_ = -1;
  }

  std::string path_;
  file_operations const& operations_;
  int lock_ = -1;
};

}  // namespace detail

WARPWRIGHT_END
