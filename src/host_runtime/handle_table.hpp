// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Handles that are neither reused nor dereferenced, so that a call with a destroyed or invalid
// handle always returns an error.
#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <unordered_map>
#include <vector>

namespace warpwright::host {

template <class Handle, class Object>
class handle_table {
 public:
  /// @param family  makes handles of different types distinct, so that a stream is not valid as an
  /// event
  explicit handle_table(std::uint64_t family) : next_((family << 40) + 0x100) {}

  Handle add(std::shared_ptr<Object> object) {
    std::uint64_t const value = next_;
    next_ += 0x10;
    objects_.emplace(value, std::move(object));
    return reinterpret_cast<Handle>(value);
  }

  std::shared_ptr<Object> find(Handle handle) const {
    auto const it = objects_.find(reinterpret_cast<std::uint64_t>(handle));
    return it == objects_.end() ? nullptr : it->second;
  }

  std::shared_ptr<Object> remove(Handle handle) {
    auto const it = objects_.find(reinterpret_cast<std::uint64_t>(handle));
    if (it == objects_.end()) return nullptr;
    std::shared_ptr<Object> object = std::move(it->second);
    objects_.erase(it);
    return object;
  }

  template <class Visit>
  void for_each(Visit&& visit) const {
    for (auto const& entry : objects_) visit(reinterpret_cast<Handle>(entry.first), entry.second);
  }

  /// Removes all objects for which `matches` returns true.
  template <class Matches>
  void remove_if(Matches&& matches) {
    for (auto it = objects_.begin(); it != objects_.end();) {
      it = matches(it->second) ? objects_.erase(it) : std::next(it);
    }
  }

  std::size_t size() const noexcept { return objects_.size(); }

  /// Removes and returns all objects; handle values are not reused afterwards either.
  std::vector<std::shared_ptr<Object>> take_all() {
    std::vector<std::shared_ptr<Object>> all;
    all.reserve(objects_.size());
    for (auto& entry : objects_) all.push_back(std::move(entry.second));
    objects_.clear();
    return all;
  }

 private:
  std::uint64_t next_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Object>> objects_;
};

}  // namespace warpwright::host
