// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/detail/source/virtual_range.hpp>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_COLD WARPWRIGHT_INLINE bool virtual_memory_functions::find() noexcept {
  return find_driver_function("cuDeviceGetAttribute", device_attribute) &&
         find_driver_function("cuMemGetAllocationGranularity", granularity) &&
         find_driver_function("cuMemAddressReserve", reserve) &&
         find_driver_function("cuMemAddressFree", unreserve) &&
         find_driver_function("cuMemCreate", create) &&
         find_driver_function("cuMemRelease", release) && find_driver_function("cuMemMap", map) &&
         find_driver_function("cuMemUnmap", unmap) &&
         find_driver_function("cuMemSetAccess", set_access);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void virtual_range::reset() noexcept {
  if (address_ == 0) return;
  for (chunk const& c : chunks_) {
    if (c.bytes == 0) continue;
    if (c.address != 0) static_cast<void>(driver_.unmap(c.address, c.bytes));
    static_cast<void>(driver_.release(c.handle));
  }
  static_cast<void>(driver_.unreserve(address_, bytes_));
  address_ = 0;
  physical_bytes_ = 0;
  spare_bytes_ = 0;
  chunks_.clear();
  chunk_of_granule_.clear();
  spare_.clear();
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE bool virtual_range::reserve(device_id device,
                                                              std::uint64_t bytes) noexcept {
  constexpr int supported = driver::attribute_virtual_memory;
  constexpr int rdma = driver::attribute_rdma_with_virtual_memory;
  int yes = 0;
  if (!driver_.find() || driver_.device_attribute(&yes, supported, device.value()) != 0 ||
      yes == 0) {
    return false;
  }
  properties_.where.id = device.value();
  // As memory of cudaMalloc: accessible to network cards.
  if (driver_.device_attribute(&yes, rdma, device.value()) == 0 && yes != 0) {
    properties_.rdma_capable = 1;
  }
  std::size_t granule = 0;
  if (driver_.granularity(&granule, &properties_, driver::granularity_recommended) != 0 ||
      granule == 0 || (granule & (granule - 1)) != 0) {
    return false;
  }
  granule_bytes_ = granule;
  bytes_ = (bytes + (granule - 1)) & ~(granule_bytes_ - 1);
  if (bytes_ < bytes || driver_.reserve(&address_, bytes_, 0, 0, 0) != 0) {
    address_ = 0;
    return false;
  }
  return true;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE cudaError_t
virtual_range::create(std::uint64_t bytes, std::uint64_t max_chunk_bytes) noexcept {
  std::uint64_t const count = (bytes + (max_chunk_bytes - 1)) / max_chunk_bytes;
  std::uint64_t const each =
      ((bytes + (count - 1)) / count + (granule_bytes_ - 1)) & ~(granule_bytes_ - 1);
  cudaError_t result = cudaSuccess;
  for (std::uint64_t left = bytes; left != 0 && result == cudaSuccess;) {
    std::uint64_t const now = each < left ? each : left;
    result = create_chunk(now);
    left -= now;
  }
  return result;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::uint64_t virtual_range::select(std::uint64_t needed,
                                                                      std::uint64_t room) noexcept {
  selected_ = 0;
  if (spare_bytes_ < needed) return 0;
  std::uint64_t chosen = 0;
  while (chosen < needed) {
    // The smallest chunk that completes the request, else the largest that fits.
    std::size_t const end = spare_.size() - selected_;
    std::size_t best = end;
    for (std::size_t i = 0; i < end; ++i) {
      std::uint64_t const bytes = chunks_[spare_[i]].bytes;
      if (bytes > room - chosen) continue;
      bool const completes = bytes >= needed - chosen;
      if (best == end) {
        best = i;
        continue;
      }
      std::uint64_t const before = chunks_[spare_[best]].bytes;
      bool const before_completes = before >= needed - chosen;
      if (completes ? !before_completes || bytes < before : !before_completes && bytes > before) {
        best = i;
      }
    }
    if (best == end) {
      selected_ = 0;
      return 0;
    }
    std::uint32_t const taken = spare_[best];
    spare_[best] = spare_[end - 1];
    spare_[end - 1] = taken;
    ++selected_;
    chosen += chunks_[taken].bytes;
  }
  return chosen;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE cudaError_t
virtual_range::merge_selected(std::uint64_t max_chunk_bytes) noexcept {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < selected_; ++i) bytes += chunks_[spare_[spare_.size() - 1 - i]].bytes;
  std::size_t const count = selected_;
  selected_ = 0;
  if (count < 2 * ((bytes + (max_chunk_bytes - 1)) / max_chunk_bytes)) return cudaSuccess;
  for (std::size_t i = 0; i < count; ++i) {
    cudaError_t const result = release_chunk(spare_.size() - 1);
    if (result != cudaSuccess) return result;
  }
  return create(bytes, max_chunk_bytes);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE cudaError_t virtual_range::map(std::uint64_t address,
                                                                 char const** api) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < selected_; ++i) bytes += chunks_[spare_[spare_.size() - 1 - i]].bytes;
  std::size_t const last = index_of(address + bytes);
  if (last > chunk_of_granule_.size()) chunk_of_granule_.resize(last);
  *api = "cuMemMap";
  std::uint64_t mapped = 0;
  driver::result code = 0;
  while (selected_ != 0) {
    std::uint32_t const index = spare_.back();
    chunk& c = chunks_[index];
    ++calls_;
    code = driver_.map(address + mapped, c.bytes, 0, c.handle, 0);
    if (code != 0) break;
    c.address = address + mapped;
    mapped += c.bytes;
    for (std::size_t g = index_of(c.address); g < index_of(c.address + c.bytes); ++g) {
      chunk_of_granule_[g] = index;
    }
    spare_.pop_back();
    spare_bytes_ -= c.bytes;
    --selected_;
  }
  if (code == 0) {
    driver::access access;
    access.where = properties_.where;
    ++calls_;
    *api = "cuMemSetAccess";
    code = driver_.set_access(address, bytes, &access, 1);
  }
  selected_ = 0;
  if (code != 0 && mapped != 0) static_cast<void>(unmap(address, mapped));
  return driver::as_runtime(code);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE virtual_range::stretch virtual_range::whole_chunks(
    std::uint64_t begin, std::uint64_t end) const noexcept {
  chunk const& first = chunk_at(begin);
  chunk const& last = chunk_at(end - 1);
  stretch whole{first.address == begin ? begin : first.address + first.bytes,
                last.address + last.bytes == end ? end : last.address};
  if (whole.end < whole.begin) whole.end = whole.begin;
  return whole;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE cudaError_t virtual_range::unmap(std::uint64_t address,
                                                                   std::uint64_t bytes) noexcept {
  ++calls_;
  driver::result const code = driver_.unmap(address, bytes);
  if (code != 0) return driver::as_runtime(code);
  for (std::uint64_t at = address; at < address + bytes;) {
    std::uint32_t const index = chunk_of_granule_[index_of(at)];
    at += chunks_[index].bytes;
    chunks_[index].address = 0;
    spare_.push_back(index);  // create() has reserved capacity
  }
  spare_bytes_ += bytes;
  return cudaSuccess;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE cudaError_t
virtual_range::release_spare(std::uint64_t keep_bytes) noexcept {
  for (;;) {
    std::size_t best = spare_.size();
    for (std::size_t i = 0; i < spare_.size(); ++i) {
      std::uint64_t const bytes = chunks_[spare_[i]].bytes;
      if (bytes > spare_bytes_ - keep_bytes) continue;
      if (best == spare_.size() || bytes > chunks_[spare_[best]].bytes) best = i;
    }
    if (best == spare_.size()) return cudaSuccess;
    cudaError_t const result = release_chunk(best);
    if (result != cudaSuccess) return result;
  }
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE cudaError_t
virtual_range::create_chunk(std::uint64_t bytes) noexcept {
  try {
    // Later steps must not fail for want of host memory.
    chunks_.reserve(chunks_.size() + 1);
    spare_.reserve(chunks_.size() + 1);
  } catch (...) {
    return cudaErrorMemoryAllocation;
  }
  driver::memory_handle handle = 0;
  ++calls_;
  driver::result const code = driver_.create(&handle, bytes, &properties_, 0);
  if (code != 0) return driver::as_runtime(code);
  std::uint32_t index = 0;
  while (index < chunks_.size() && chunks_[index].bytes != 0) ++index;
  if (index == chunks_.size()) chunks_.emplace_back();
  ++created_;
  chunks_[index] = chunk{handle, 0, bytes};
  spare_.push_back(index);
  physical_bytes_ += bytes;
  spare_bytes_ += bytes;
  return cudaSuccess;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE cudaError_t
virtual_range::release_chunk(std::size_t spare) noexcept {
  chunk& c = chunks_[spare_[spare]];
  ++calls_;
  driver::result const code = driver_.release(c.handle);
  if (code != 0) return driver::as_runtime(code);
  ++released_;
  physical_bytes_ -= c.bytes;
  spare_bytes_ -= c.bytes;
  c = chunk{};
  spare_[spare] = spare_.back();
  spare_.pop_back();
  return cudaSuccess;
}

WARPWRIGHT_INLINE std::size_t virtual_range::index_of(std::uint64_t address) const noexcept {
  return static_cast<std::size_t>((address - address_) / granule_bytes_);
}

WARPWRIGHT_INLINE virtual_range::chunk const& virtual_range::chunk_at(
    std::uint64_t address) const noexcept {
  return chunks_[chunk_of_granule_[index_of(address)]];
}

}  // namespace detail

WARPWRIGHT_END
