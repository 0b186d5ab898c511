// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "rmm_peers.hpp"

#include <rmm/logger.hpp>
#include <rmm/mr/arena_memory_resource.hpp>
#include <rmm/mr/binning_memory_resource.hpp>
#include <rmm/mr/cuda_async_memory_resource.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>
#include <rmm/version_config.hpp>

#include <atomic>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace rmm_peers {
namespace {

constexpr std::size_t alignment = 256;
constexpr std::int8_t least_bin_exponent = 18;
constexpr std::int8_t largest_bin_exponent = 22;

struct reserved_memory {
  std::atomic<std::uint64_t> now{0};
  std::atomic<std::uint64_t> peak{0};

  void add(std::uint64_t bytes) {
    std::uint64_t const sum = now.fetch_add(bytes) + bytes;
    std::uint64_t before = peak.load();
    while (before < sum && !peak.compare_exchange_weak(before, sum)) {
    }
  }
};

// cuda_memory_resource that counts what is taken from it.
class counted_cuda_memory {
 public:
  explicit counted_cuda_memory(std::shared_ptr<reserved_memory> counted)
      : counted_{std::move(counted)} {}
  void* allocate(cuda::stream_ref stream, std::size_t bytes, std::size_t align) {
    void* const memory = upstream_.allocate(stream, bytes, align);
    counted_->add(bytes);
    return memory;
  }
  void deallocate(cuda::stream_ref stream, void* memory, std::size_t bytes,
                  std::size_t align) noexcept {
    upstream_.deallocate(stream, memory, bytes, align);
    counted_->now.fetch_sub(bytes);
  }
  void* allocate_sync(std::size_t bytes, std::size_t align) {
    return allocate(cuda::stream_ref{cudaStream_t{nullptr}}, bytes, align);
  }
  void deallocate_sync(void* memory, std::size_t bytes, std::size_t align) noexcept {
    deallocate(cuda::stream_ref{cudaStream_t{nullptr}}, memory, bytes, align);
  }
  bool operator==(counted_cuda_memory const& other) const { return counted_ == other.counted_; }
  friend void get_property(counted_cuda_memory const&, cuda::mr::device_accessible) noexcept {}

 private:
  std::shared_ptr<reserved_memory> counted_;
  rmm::mr::cuda_memory_resource upstream_;
};

template <class Resource>
class held : public resource {
 public:
  held(Resource of, std::shared_ptr<reserved_memory> counted)
      : of_{std::move(of)}, counted_{std::move(counted)} {}
  void* allocate(cudaStream_t stream, std::size_t bytes) override {
    if (bytes == 0) return nullptr;
    try {
      return of_.allocate(cuda::stream_ref{stream}, bytes, alignment);
    } catch (std::bad_alloc const&) {
      static_cast<void>(cudaGetLastError());
      return nullptr;
    }
  }
  void deallocate(cudaStream_t stream, void* pointer, std::size_t bytes) override {
    of_.deallocate(cuda::stream_ref{stream}, pointer, bytes, alignment);
  }
  [[nodiscard]] std::uint64_t reserved_bytes() const override { return counted_->now.load(); }
  [[nodiscard]] std::uint64_t reserved_peak_bytes() const override { return counted_->peak.load(); }

 protected:
  Resource of_;

 private:
  std::shared_ptr<reserved_memory> counted_;
};

class cuda_async final : public held<rmm::mr::cuda_async_memory_resource> {
 public:
  cuda_async() : held{rmm::mr::cuda_async_memory_resource{}, nullptr} {}
  [[nodiscard]] std::uint64_t reserved_bytes() const override {
    return attribute(cudaMemPoolAttrReservedMemCurrent);
  }
  [[nodiscard]] std::uint64_t reserved_peak_bytes() const override {
    return attribute(cudaMemPoolAttrReservedMemHigh);
  }

 private:
  [[nodiscard]] std::uint64_t attribute(cudaMemPoolAttr which) const {
    std::uint64_t value = 0;
    if (cudaMemPoolGetAttribute(of_.pool_handle(), which, &value) != cudaSuccess) {
      throw std::runtime_error{
          "cudaMemPoolGetAttribute failed on the pool of RMM's "
          "cuda_async_memory_resource"};
    }
    return value;
  }
};

std::size_t rounded_down(std::size_t bytes) { return bytes / alignment * alignment; }

}  // namespace

std::unique_ptr<resource> make(kind which, std::size_t initial_bytes, std::size_t max_bytes) {
  rmm::default_logger().set_level(rapids_logger::level_enum::off);  // it reports each failure
  if (which == kind::cuda_async) return std::make_unique<cuda_async>();
  auto const counted = std::make_shared<reserved_memory>();
  counted_cuda_memory const upstream{counted};
  if (which == kind::arena) {
    return std::make_unique<held<rmm::mr::arena_memory_resource>>(
        rmm::mr::arena_memory_resource{upstream, rounded_down(max_bytes)}, counted);
  }
  std::optional<std::size_t> maximum;
  if (max_bytes != unlimited) maximum = rounded_down(max_bytes);
  rmm::mr::pool_memory_resource const pool{upstream, rounded_down(initial_bytes), maximum};
  if (which == kind::pool) {
    return std::make_unique<held<rmm::mr::pool_memory_resource>>(pool, counted);
  }
  return std::make_unique<held<rmm::mr::binning_memory_resource>>(
      rmm::mr::binning_memory_resource{pool, least_bin_exponent, largest_bin_exponent}, counted);
}

std::string version() {
  return std::to_string(RMM_VERSION_MAJOR) + '.' + std::to_string(RMM_VERSION_MINOR) + '.' +
         std::to_string(RMM_VERSION_PATCH);
}

}  // namespace rmm_peers
