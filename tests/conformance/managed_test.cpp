// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Advice for managed memory, and prefetches: neither changes the contents.
#include "conformance.hpp"

using namespace conformance;

namespace {

constexpr std::size_t count = 1024;

class managed_memory {
 public:
  managed_memory() {
    REQUIRE(cudaMallocManaged(reinterpret_cast<void**>(&data_), bytes(), cudaMemAttachGlobal) ==
            cudaSuccess);
  }
  ~managed_memory() {
    cudaFree(data_);
    cudaGetLastError();
  }
  managed_memory(managed_memory const&) = delete;
  managed_memory& operator=(managed_memory const&) = delete;
  float* data() const { return data_; }
  std::size_t bytes() const { return count * sizeof(float); }

 private:
  float* data_ = nullptr;
};

cudaMemLocation at_device(int ordinal) {
  cudaMemLocation where = {};
  where.type = cudaMemLocationTypeDevice;
  where.id = ordinal;
  return where;
}

cudaMemLocation at_host() {
  cudaMemLocation where = {};
  where.type = cudaMemLocationTypeHost;
  return where;
}

// Advice and prefetches need concurrent managed access.
bool supported() {
  int concurrent = 0;
  REQUIRE(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, 0) ==
          cudaSuccess);
  return concurrent != 0;
}

}  // namespace

TEST_CASE("prefetches to the device and back do not change the contents") {
  if (!supported()) return;
  stream const s;
  managed_memory const m;
  for (std::size_t i = 0; i < count; ++i) m.data()[i] = 1.0F;
  SUCCEEDS(cudaMemPrefetchAsync(m.data(), m.bytes(), at_device(0), 0, s));
  launch(s, count, scale_and_add{m.data(), 2.0F});
  SUCCEEDS(cudaMemPrefetchAsync(m.data(), m.bytes(), at_host(), 0, s));
  SUCCEEDS(cudaStreamSynchronize(s));
  CHECK(m.data()[0] == 2.0F);
  CHECK(m.data()[count - 1] == 2.0F + static_cast<float>(count - 1));
}

TEST_CASE("invalid prefetches") {
  if (!supported()) return;
  int devices = 0;
  REQUIRE(cudaGetDeviceCount(&devices) == cudaSuccess);
  stream const s;
  managed_memory const m;
  device_memory<float> const device(count);
  RETURNS(cudaMemPrefetchAsync(m.data(), m.bytes(), at_device(devices), 0, s),
          cudaErrorInvalidDevice);
  RETURNS(cudaMemPrefetchAsync(m.data(), m.bytes(), at_device(0), 1, s), cudaErrorInvalidValue);
  RETURNS(cudaMemPrefetchAsync(device.data(), device.bytes(), at_device(0), 0, s),
          cudaErrorInvalidValue);
  FAILS(cudaMemPrefetchAsync(m.data(), m.bytes(), cudaMemLocation{}, 0, s));  // no location
}

TEST_CASE("advice does not change the contents") {
  if (!supported()) return;
  stream const s;
  managed_memory const m;
  for (std::size_t i = 0; i < count; ++i) m.data()[i] = 3.0F;
  SUCCEEDS(cudaMemAdvise(m.data(), m.bytes(), cudaMemAdviseSetReadMostly, at_device(0)));
  SUCCEEDS(cudaMemAdvise(m.data(), m.bytes(), cudaMemAdviseSetPreferredLocation, at_device(0)));
  SUCCEEDS(cudaMemAdvise(m.data(), m.bytes(), cudaMemAdviseSetAccessedBy, at_host()));
  launch(s, count, scale_and_add{m.data(), 1.0F});
  SUCCEEDS(cudaStreamSynchronize(s));
  CHECK(m.data()[10] == 13.0F);
  SUCCEEDS(cudaMemAdvise(m.data(), m.bytes(), cudaMemAdviseUnsetAccessedBy, at_host()));
  SUCCEEDS(cudaMemAdvise(m.data(), m.bytes(), cudaMemAdviseUnsetPreferredLocation, at_device(0)));
  SUCCEEDS(cudaMemAdvise(m.data(), m.bytes(), cudaMemAdviseUnsetReadMostly, at_device(0)));
  CHECK(m.data()[10] == 13.0F);
}

TEST_CASE("invalid advice") {
  if (!supported()) return;
  int devices = 0;
  REQUIRE(cudaGetDeviceCount(&devices) == cudaSuccess);
  managed_memory const m;
  device_memory<float> const device(count);
  for (cudaMemoryAdvise const advice :
       {cudaMemAdviseSetPreferredLocation, cudaMemAdviseSetAccessedBy}) {
    RETURNS(cudaMemAdvise(m.data(), m.bytes(), advice, at_device(devices)), cudaErrorInvalidValue);
  }
  FAILS(cudaMemAdvise(m.data(), m.bytes(), cudaMemAdviseSetAccessedBy, cudaMemLocation{}));
  cudaMemLocation node = {};  // not a processor
  node.type = cudaMemLocationTypeHostNumaCurrent;
  FAILS(cudaMemAdvise(m.data(), m.bytes(), cudaMemAdviseSetAccessedBy, node));
  RETURNS(cudaMemAdvise(device.data(), device.bytes(), cudaMemAdviseSetReadMostly, at_device(0)),
          cudaErrorInvalidValue);
  constexpr int no_advice = 7;  // the largest value that the enumeration can hold
  RETURNS(cudaMemAdvise(m.data(), m.bytes(), static_cast<cudaMemoryAdvise>(no_advice), at_host()),
          cudaErrorInvalidValue);
}
