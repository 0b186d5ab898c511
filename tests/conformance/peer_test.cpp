// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Peer access and peer copies. Tests that need two
// devices are skipped if there is one.
#include "conformance.hpp"

using namespace conformance;

namespace {

int devices() {
  int count = 0;
  REQUIRE(cudaGetDeviceCount(&count) == cudaSuccess);
  return count;
}

bool linked() {
  if (devices() < 2) return false;
  int can = 0;
  REQUIRE(cudaDeviceCanAccessPeer(&can, 0, 1) == cudaSuccess);
  return can == 1;
}

// Memory of device 1, used by a thread whose current device is 0.
class far_memory {
 public:
  explicit far_memory(std::size_t count) {
    REQUIRE(cudaSetDevice(1) == cudaSuccess);
    cudaError_t const code = cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(float));
    REQUIRE(cudaSetDevice(0) == cudaSuccess);
    REQUIRE(code == cudaSuccess);
  }
  ~far_memory() {
    cudaFree(data_);
    cudaGetLastError();
  }
  far_memory(far_memory const&) = delete;
  far_memory& operator=(far_memory const&) = delete;
  float* data() const { return data_; }

 private:
  float* data_ = nullptr;
};

}  // namespace

TEST_CASE("a device is not a peer of itself") {
  int can = 9;
  SUCCEEDS(cudaDeviceCanAccessPeer(&can, 0, 0));
  CHECK(can == 0);
  RETURNS(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessUnsupported);
  FAILS(cudaDeviceDisablePeerAccess(0));
}

TEST_CASE("a nonexistent device is not a peer") {
  int const count = devices();
  int can = 9;
  RETURNS(cudaDeviceCanAccessPeer(&can, 0, count), cudaErrorInvalidDevice);
  RETURNS(cudaDeviceCanAccessPeer(&can, -1, 0), cudaErrorInvalidDevice);
  RETURNS(cudaDeviceEnablePeerAccess(count, 0), cudaErrorInvalidDevice);
  RETURNS(cudaDeviceDisablePeerAccess(count), cudaErrorInvalidDevice);
}

TEST_CASE("peer copies within one device") {
  stream const s;
  std::vector<int> values(1000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(i * 3);
  device_memory<int> const a(1000), b(1000), c(1000);
  SUCCEEDS(cudaMemset(c.data(), 0, c.bytes()));
  SUCCEEDS(cudaMemcpy(a.data(), values.data(), a.bytes(), cudaMemcpyHostToDevice));
  SUCCEEDS(cudaMemcpyPeer(b.data(), 0, a.data(), 0, a.bytes()));
  CHECK(b.fetch() == values);
  SUCCEEDS(cudaMemcpyPeerAsync(c.data(), 0, b.data(), 0, 500 * sizeof(int), s));
  SUCCEEDS(cudaStreamSynchronize(s));
  std::vector<int> const back = c.fetch();
  CHECK(back[499] == values[499]);
  CHECK(back[500] == 0);
}

TEST_CASE("a peer copy is stream-ordered") {
  // No gate: the call may wait on the host for earlier work.
  stream const s;
  device_memory<float> const a(256), b(256);
  launch(s, 256, fill_with{a.data(), 6.0F});
  SUCCEEDS(cudaMemcpyPeerAsync(b.data(), 0, a.data(), 0, a.bytes(), s));
  launch(s, 256, fill_with{a.data(), 7.0F});
  SUCCEEDS(cudaStreamSynchronize(s));
  CHECK(b.fetch()[255] == 6.0F);
}

TEST_CASE("peer copies to and from a nonexistent device fail") {
  stream const s;
  int const count = devices();
  device_memory<char> const a(64), b(64);
  RETURNS(cudaMemcpyPeer(b.data(), count, a.data(), 0, 64), cudaErrorInvalidDevice);
  RETURNS(cudaMemcpyPeer(b.data(), 0, a.data(), -1, 64), cudaErrorInvalidDevice);
  RETURNS(cudaMemcpyPeerAsync(b.data(), 0, a.data(), count, 64, s), cudaErrorInvalidDevice);
}

TEST_CASE("peer copies between two devices") {
  if (devices() < 2) return;
  stream const s;
  far_memory const far(256);
  device_memory<float> const near(256), back(256);
  launch(s, 256, fill_with{near.data(), 2.0F});
  SUCCEEDS(cudaMemcpyPeerAsync(far.data(), 1, near.data(), 0, near.bytes(), s));
  SUCCEEDS(cudaStreamSynchronize(s));
  SUCCEEDS(cudaMemcpyPeer(back.data(), 0, far.data(), 1, back.bytes()));
  CHECK(back.fetch()[255] == 2.0F);
}

TEST_CASE("a stream of another device than the current one") {
  if (devices() < 2) return;
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  stream const far;
  event const far_event;
  far_memory const memory(256);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  stream const near;
  event const near_event;
  // An event is of one device; a wait may be of any.
  RETURNS(cudaEventRecord(near_event, far), cudaErrorInvalidResourceHandle);
  SUCCEEDS(cudaEventRecord(far_event, far));
  SUCCEEDS(cudaStreamWaitEvent(near, far_event, 0));
  SUCCEEDS(cudaEventRecord(near_event, near));
  SUCCEEDS(cudaStreamWaitEvent(far, near_event, 0));
  SUCCEEDS(cudaMemsetAsync(memory.data(), 0, 1024, far));
  std::vector<float> host(256, 1.0F);
  SUCCEEDS(cudaMemcpyAsync(memory.data(), host.data(), 1024, cudaMemcpyHostToDevice, far));
  SUCCEEDS(cudaStreamSynchronize(far));
  SUCCEEDS(cudaStreamQuery(far));
  void* allocated = nullptr;
  SUCCEEDS(cudaMallocAsync(&allocated, 1024, far));
  cudaPointerAttributes attributes = {};
  SUCCEEDS(cudaPointerGetAttributes(&attributes, allocated));
  CHECK(attributes.device == 1);
  SUCCEEDS(cudaFreeAsync(allocated, far));

  // In a capture, which the refused call leaves valid.
  SUCCEEDS(cudaStreamBeginCapture(far, cudaStreamCaptureModeThreadLocal));
  RETURNS(cudaEventRecord(near_event, far), cudaErrorInvalidResourceHandle);
  SUCCEEDS(cudaMemsetAsync(memory.data(), 0, 1024, far));
  cudaGraph_t captured = nullptr;
  SUCCEEDS(cudaStreamEndCapture(far, &captured));
  cudaGraphExec_t exec = nullptr;
  SUCCEEDS(cudaGraphInstantiate(&exec, captured, 0));
  SUCCEEDS(cudaGraphLaunch(exec, far));
  SUCCEEDS(cudaMemcpyAsync(host.data(), memory.data(), 1024, cudaMemcpyDeviceToHost, far));
  SUCCEEDS(cudaStreamSynchronize(far));
  CHECK(host[255] == 0.0F);
  SUCCEEDS(cudaGraphExecDestroy(exec));
  SUCCEEDS(cudaGraphDestroy(captured));
}

TEST_CASE("peer access is enabled once, in one direction, and disabled") {
  if (!linked()) return;
  stream const s;
  far_memory const far(256);
  RETURNS(cudaDeviceEnablePeerAccess(1, 1), cudaErrorInvalidValue);  // flags must be 0
  RETURNS(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
  SUCCEEDS(cudaDeviceEnablePeerAccess(1, 0));
  RETURNS(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  RETURNS(cudaDeviceDisablePeerAccess(0), cudaErrorPeerAccessNotEnabled);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  launch(s, 256, fill_with{far.data(), 5.0F});  // a kernel of device 0
  std::vector<float> host(256);
  SUCCEEDS(cudaMemcpyAsync(host.data(), far.data(), 1024, cudaMemcpyDeviceToHost, s));
  SUCCEEDS(cudaStreamSynchronize(s));
  CHECK(host[255] == 5.0F);
  SUCCEEDS(cudaDeviceDisablePeerAccess(1));
  RETURNS(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
}

TEST_CASE("a pool is accessible to its own device, and to others after cudaMemPoolSetAccess") {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  cudaMemPool_t pool = nullptr;
  REQUIRE(cudaMemPoolCreate(&pool, &properties) == cudaSuccess);
  cudaMemLocation where = {};
  where.type = cudaMemLocationTypeDevice;
  cudaMemAccessFlags flags = cudaMemAccessFlagsProtNone;
  SUCCEEDS(cudaMemPoolGetAccess(&flags, pool, &where));
  CHECK(flags == cudaMemAccessFlagsProtReadWrite);
  cudaMemAccessDesc access = {};
  access.location = where;
  access.flags = cudaMemAccessFlagsProtReadWrite;
  SUCCEEDS(cudaMemPoolSetAccess(pool, &access, 1));
  SUCCEEDS(cudaMemPoolGetAccess(&flags, pool, &where));
  CHECK(flags == cudaMemAccessFlagsProtReadWrite);
  access.flags = cudaMemAccessFlagsProtNone;
  FAILS(cudaMemPoolSetAccess(pool, &access, 1));  // its own device
  access.flags = cudaMemAccessFlagsProtReadWrite;
  access.location.id = devices();
  FAILS(cudaMemPoolSetAccess(pool, &access, 1));
  if (linked()) {
    where.id = access.location.id = 1;
    SUCCEEDS(cudaMemPoolGetAccess(&flags, pool, &where));
    CHECK(flags == cudaMemAccessFlagsProtNone);
    SUCCEEDS(cudaMemPoolSetAccess(pool, &access, 1));
    SUCCEEDS(cudaMemPoolGetAccess(&flags, pool, &where));
    CHECK(flags == cudaMemAccessFlagsProtReadWrite);
    access.flags = cudaMemAccessFlagsProtNone;
    SUCCEEDS(cudaMemPoolSetAccess(pool, &access, 1));
    SUCCEEDS(cudaMemPoolGetAccess(&flags, pool, &where));
    CHECK(flags == cudaMemAccessFlagsProtNone);
  }
  SUCCEEDS(cudaMemPoolDestroy(pool));
}
