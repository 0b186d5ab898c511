// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Stream-ordered allocation and memory pools.
#include "conformance.hpp"

using namespace conformance;

namespace {

class pool {
 public:
  pool() {
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = 0;
    REQUIRE(cudaMemPoolCreate(&handle_, &properties) == cudaSuccess);
  }
  ~pool() {
    cudaMemPoolDestroy(handle_);
    cudaGetLastError();
  }
  pool(pool const&) = delete;
  pool& operator=(pool const&) = delete;
  operator cudaMemPool_t() const { return handle_; }

  std::uint64_t attribute(cudaMemPoolAttr which) const {
    std::uint64_t value = 99;
    REQUIRE(cudaMemPoolGetAttribute(handle_, which, &value) == cudaSuccess);
    return value;
  }

 private:
  cudaMemPool_t handle_ = nullptr;
};

constexpr std::size_t megabyte = std::size_t{1} << 20;

}  // namespace

TEST_CASE("memory is allocated and freed in a stream") {
  stream const s;
  float* p = nullptr;
  SUCCEEDS(cudaMallocAsync(reinterpret_cast<void**>(&p), 1024 * sizeof(float), s));
  CHECK(reinterpret_cast<std::uintptr_t>(p) % 256 == 0);
  launch(s, 1024, fill_with{p, 4.0F});
  std::vector<float> host(1024);
  SUCCEEDS(cudaMemcpyAsync(host.data(), p, 4096, cudaMemcpyDeviceToHost, s));
  SUCCEEDS(cudaStreamSynchronize(s));
  CHECK(host[1023] == 4.0F);
  cudaPointerAttributes attributes = {};
  SUCCEEDS(cudaPointerGetAttributes(&attributes, p));
  CHECK(attributes.type == cudaMemoryTypeDevice);
  SUCCEEDS(cudaFreeAsync(p, s));
  SUCCEEDS(cudaStreamSynchronize(s));
}

TEST_CASE("cudaFree and cudaFreeAsync free stream-ordered memory") {
  stream const s;
  void* p = nullptr;
  SUCCEEDS(cudaMallocAsync(&p, megabyte, s));
  SUCCEEDS(cudaStreamSynchronize(s));
  SUCCEEDS(cudaFree(p));
  RETURNS(cudaFree(p), cudaErrorInvalidValue);
  int on_stack = 0;
  RETURNS(cudaFreeAsync(&on_stack, s), cudaErrorInvalidValue);
  RETURNS(cudaMallocAsync(nullptr, 16, s), cudaErrorInvalidValue);
  RETURNS(cudaMallocAsync(&p, std::size_t{1} << 60, s), cudaErrorMemoryAllocation);
}

TEST_CASE("an allocation reuses memory freed in the same stream without waiting") {
  gate closed;
  stream const s;
  std::size_t free_bytes = 0, total = 0;
  REQUIRE(cudaMemGetInfo(&free_bytes, &total) == cudaSuccess);
  std::size_t const most = free_bytes / 10 * 8 / megabyte * megabyte;
  void *a = nullptr, *b = nullptr;
  SUCCEEDS(closed.block(s));
  SUCCEEDS(cudaMallocAsync(&a, most, s));
  SUCCEEDS(cudaFreeAsync(a, s));
  SUCCEEDS(cudaMallocAsync(&b, most, s));  // both together would not fit
  SUCCEEDS(cudaFreeAsync(b, s));
  closed.open();
  SUCCEEDS(cudaStreamSynchronize(s));
}

TEST_CASE("pool statistics") {
  stream const s;
  pool const mine;
  std::uint64_t keep_all = ~std::uint64_t{0};
  SUCCEEDS(cudaMemPoolSetAttribute(mine, cudaMemPoolAttrReleaseThreshold, &keep_all));
  CHECK(mine.attribute(cudaMemPoolAttrReleaseThreshold) == keep_all);
  CHECK(mine.attribute(cudaMemPoolAttrUsedMemCurrent) == 0);
  void* p = nullptr;
  SUCCEEDS(cudaMallocFromPoolAsync(&p, 8 * megabyte, mine, s));
  CHECK(mine.attribute(cudaMemPoolAttrUsedMemCurrent) >= 8 * megabyte);
  CHECK(mine.attribute(cudaMemPoolAttrReservedMemCurrent) >= 8 * megabyte);
  SUCCEEDS(cudaFreeAsync(p, s));
  SUCCEEDS(cudaStreamSynchronize(s));
  CHECK(mine.attribute(cudaMemPoolAttrUsedMemCurrent) == 0);
  CHECK(mine.attribute(cudaMemPoolAttrUsedMemHigh) >= 8 * megabyte);
  CHECK(mine.attribute(cudaMemPoolAttrReservedMemCurrent) >= 8 * megabyte);
  SUCCEEDS(cudaMemPoolTrimTo(mine, 0));
  CHECK(mine.attribute(cudaMemPoolAttrReservedMemCurrent) == 0);
  std::uint64_t zero = 0, one = 1;
  SUCCEEDS(cudaMemPoolSetAttribute(mine, cudaMemPoolAttrUsedMemHigh, &zero));
  CHECK(mine.attribute(cudaMemPoolAttrUsedMemHigh) == 0);
  RETURNS(cudaMemPoolSetAttribute(mine, cudaMemPoolAttrUsedMemHigh, &one), cudaErrorInvalidValue);
  RETURNS(cudaMemPoolSetAttribute(mine, cudaMemPoolAttrUsedMemCurrent, &zero),
          cudaErrorInvalidValue);
}

TEST_CASE("without a release threshold a synchronisation releases memory") {
  stream const s;
  pool const mine;
  void* p = nullptr;
  SUCCEEDS(cudaMallocFromPoolAsync(&p, 64 * megabyte, mine, s));
  SUCCEEDS(cudaFreeAsync(p, s));
  SUCCEEDS(cudaStreamSynchronize(s));
  CHECK(mine.attribute(cudaMemPoolAttrReservedMemCurrent) == 0);
}

TEST_CASE("the default and the current pool of a device") {
  cudaMemPool_t first = nullptr, current = nullptr;
  SUCCEEDS(cudaDeviceGetDefaultMemPool(&first, 0));
  SUCCEEDS(cudaDeviceGetMemPool(&current, 0));
  CHECK(first == current);
  {
    pool const mine;
    SUCCEEDS(cudaDeviceSetMemPool(0, mine));
    SUCCEEDS(cudaDeviceGetMemPool(&current, 0));
    CHECK(current == mine);
  }
  SUCCEEDS(cudaDeviceGetMemPool(&current, 0));
  CHECK(current == first);
  RETURNS(cudaMemPoolDestroy(first), cudaErrorInvalidValue);
  RETURNS(cudaDeviceGetDefaultMemPool(&first, 1 << 20), cudaErrorInvalidDevice);
  RETURNS(cudaMemPoolCreate(&first, nullptr), cudaErrorInvalidValue);
}

TEST_CASE("calls on pools are forbidden to a capturing thread, and legal to a relaxed one") {
  stream const s;
  pool const mine;
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  cudaMemAccessDesc access = {};
  access.location = properties.location;
  access.flags = cudaMemAccessFlagsProtReadWrite;
  cudaMemAccessFlags flags = cudaMemAccessFlagsProtNone;
  std::uint64_t value = 0;
  cudaMemPool_t other = nullptr, first = nullptr;
  SUCCEEDS(cudaDeviceGetDefaultMemPool(&first, 0));
  auto const call = [&](int which) {
    switch (which) {
      case 0:
        return cudaMemPoolCreate(&other, &properties);
      case 1:
        return cudaMemPoolSetAttribute(mine, cudaMemPoolAttrReleaseThreshold, &value);
      case 2:
        return cudaMemPoolGetAttribute(mine, cudaMemPoolAttrReservedMemCurrent, &value);
      case 3:
        return cudaMemPoolTrimTo(mine, 0);
      case 4:
        return cudaMemPoolSetAccess(mine, &access, 1);
      case 5:
        return cudaMemPoolGetAccess(&flags, mine, &access.location);
      case 6:
        return cudaDeviceSetMemPool(0, first);
      default:
        return cudaMemPoolDestroy(other != nullptr ? other : mine);
    }
  };
  int const which = GENERATE(0, 1, 2, 3, 4, 5, 6, 7);
  SECTION("forbidden") {
    SUCCEEDS(cudaStreamBeginCapture(
        s, GENERATE(cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal)));
    RETURNS(call(which), cudaErrorStreamCaptureUnsupported);
    cudaGraph_t graph = nullptr;
    RETURNS(cudaStreamEndCapture(s, &graph), cudaErrorStreamCaptureInvalidated);
  }
  SECTION("legal") {
    SUCCEEDS(cudaMemPoolCreate(&other, &properties));
    cudaMemPool_t const last = other;
    SUCCEEDS(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    SUCCEEDS(cudaThreadExchangeStreamCaptureMode(&mode));
    SUCCEEDS(call(which));
    SUCCEEDS(cudaThreadExchangeStreamCaptureMode(&mode));
    cudaGraph_t graph = nullptr;
    SUCCEEDS(cudaStreamEndCapture(s, &graph));
    SUCCEEDS(cudaGraphDestroy(graph));
    if (which == 0) SUCCEEDS(cudaMemPoolDestroy(other));
    if (which != 7) SUCCEEDS(cudaMemPoolDestroy(last));
  }
}

TEST_CASE("the pools of a device can be asked for in a capture") {
  stream const s;
  cudaMemPool_t handle = nullptr;
  SUCCEEDS(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  SUCCEEDS(cudaDeviceGetDefaultMemPool(&handle, 0));
  SUCCEEDS(cudaDeviceGetMemPool(&handle, 0));
  cudaGraph_t graph = nullptr;
  SUCCEEDS(cudaStreamEndCapture(s, &graph));
  SUCCEEDS(cudaGraphDestroy(graph));
}

TEST_CASE("a block from before a capture cannot be freed in it, which does no harm") {
  stream const s;
  void* p = nullptr;
  SUCCEEDS(cudaMallocAsync(&p, megabyte, s));
  SUCCEEDS(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
  RETURNS(cudaFreeAsync(p, s), cudaErrorInvalidValue);
  cudaGraph_t graph = nullptr;
  SUCCEEDS(cudaStreamEndCapture(s, &graph));
  SUCCEEDS(cudaGraphDestroy(graph));
  SUCCEEDS(cudaFreeAsync(p, s));
  SUCCEEDS(cudaStreamSynchronize(s));
}
