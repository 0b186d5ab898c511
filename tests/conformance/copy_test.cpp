// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Copies and fills of all kinds: results, synchronisation, invalid arguments.
#include "conformance.hpp"

using namespace conformance;

TEST_CASE("copies to, on and from the device") {
  std::vector<int> values(1000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(i * 7);
  device_memory<int> const a(1000), b(1000);
  SUCCEEDS(cudaMemcpy(a.data(), values.data(), a.bytes(), cudaMemcpyHostToDevice));
  SUCCEEDS(cudaMemcpy(b.data(), a.data(), a.bytes(), cudaMemcpyDeviceToDevice));
  CHECK(b.fetch() == values);
}

TEST_CASE("cudaMemcpyDefault infers the kind from the pointers") {
  std::vector<int> values(100, 5), back(100, 0);
  device_memory<int> const a(100), b(100);
  SUCCEEDS(cudaMemcpy(a.data(), values.data(), a.bytes(), cudaMemcpyDefault));
  SUCCEEDS(cudaMemcpy(b.data(), a.data(), a.bytes(), cudaMemcpyDefault));
  SUCCEEDS(cudaMemcpy(back.data(), b.data(), a.bytes(), cudaMemcpyDefault));
  CHECK(back == values);
  back.assign(100, 0);
  SUCCEEDS(cudaMemcpy(back.data(), values.data(), a.bytes(), cudaMemcpyDefault));
  CHECK(back == values);
}

TEST_CASE("copies in the wrong direction fail") {
  device_memory<char> const device(4096);
  std::vector<char> host(4096);
  RETURNS(cudaMemcpy(device.data(), host.data(), 4096, cudaMemcpyDeviceToHost),
          cudaErrorInvalidValue);
  RETURNS(cudaMemcpy(host.data(), device.data(), 4096, cudaMemcpyHostToDevice),
          cudaErrorInvalidValue);
  RETURNS(cudaMemcpy(host.data(), device.data(), 4096, cudaMemcpyDeviceToDevice),
          cudaErrorInvalidValue);
  constexpr int no_kind = 7;  // the largest value that the enumeration can hold
  RETURNS(cudaMemcpy(host.data(), device.data(), 4096, static_cast<cudaMemcpyKind>(no_kind)),
          cudaErrorInvalidMemcpyDirection);
}

TEST_CASE("copies beyond an allocation fail") {
  device_memory<char> const device(4096);
  std::vector<char> host(8192000);
  RETURNS(cudaMemcpy(device.data(), host.data(), host.size(), cudaMemcpyHostToDevice),
          cudaErrorInvalidValue);
  RETURNS(cudaMemcpy(nullptr, host.data(), 16, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
}

TEST_CASE("copies of zero bytes succeed") {
  device_memory<char> const device(16);
  char host = 0;
  SUCCEEDS(cudaMemcpy(device.data(), &host, 0, cudaMemcpyHostToDevice));
  SUCCEEDS(cudaMemset(device.data(), 0, 0));
}

TEST_CASE("a copy to the host waits for earlier work on its stream") {
  stream const s;
  device_memory<float> const y(4096);
  pinned_memory<float> const pinned(4096);
  std::vector<float> pageable(4096);
  launch(s, 4096, fill_with{y.data(), 3.0F});
  SECTION("into pageable memory: when the call returns") {
    SUCCEEDS(cudaMemcpyAsync(pageable.data(), y.data(), y.bytes(), cudaMemcpyDeviceToHost, s));
    CHECK(pageable[4095] == 3.0F);
  }
  SECTION("into pinned memory: when the stream is synchronised") {
    SUCCEEDS(cudaMemcpyAsync(pinned.data(), y.data(), y.bytes(), cudaMemcpyDeviceToHost, s));
    SUCCEEDS(cudaStreamSynchronize(s));
    CHECK(pinned.data()[4095] == 3.0F);
  }
}

TEST_CASE("a pageable source may be reused when the call returns") {
  stream const s;
  device_memory<int> const device(1 << 18);
  std::vector<int> values(1 << 18, 11);
  SUCCEEDS(
      cudaMemcpyAsync(device.data(), values.data(), device.bytes(), cudaMemcpyHostToDevice, s));
  values.assign(values.size(), 22);
  SUCCEEDS(cudaStreamSynchronize(s));
  std::vector<int> const back = device.fetch();
  CHECK(back.front() == 11);
  CHECK(back.back() == 11);
}

TEST_CASE("a copy from pinned memory does not wait") {
  gate closed;
  stream const s;
  device_memory<int> const device(1024);
  pinned_memory<int> const pinned(1024);
  SUCCEEDS(closed.block(s));
  SUCCEEDS(
      cudaMemcpyAsync(device.data(), pinned.data(), device.bytes(), cudaMemcpyHostToDevice, s));
  RETURNS(cudaStreamQuery(s), cudaErrorNotReady);
  closed.open();
  SUCCEEDS(cudaStreamSynchronize(s));
}

TEST_CASE("copies of two dimensions") {
  constexpr std::size_t width = 10, height = 5, pitch = 16;
  std::vector<unsigned char> host(pitch * height);
  for (std::size_t i = 0; i < host.size(); ++i) host[i] = static_cast<unsigned char>(i);
  device_memory<unsigned char> const device(32 * height);
  SUCCEEDS(cudaMemset(device.data(), 0xee, device.bytes()));
  SUCCEEDS(
      cudaMemcpy2D(device.data(), 32, host.data(), pitch, width, height, cudaMemcpyHostToDevice));
  std::vector<unsigned char> const back = device.fetch();
  CHECK(back[3 * 32 + 9] == host[3 * pitch + 9]);
  CHECK(back[3 * 32 + 10] == 0xee);
  RETURNS(cudaMemcpy2D(device.data(), 5, host.data(), pitch, width, height, cudaMemcpyHostToDevice),
          cudaErrorInvalidPitchValue);
}

TEST_CASE("fills") {
  stream const s;
  device_memory<unsigned char> const device(4096);
  SUCCEEDS(cudaMemset(device.data(), 0x11, 4096));
  SUCCEEDS(cudaDeviceSynchronize());
  SUCCEEDS(cudaMemsetAsync(device.data() + 100, 0x22, 50, s));
  SUCCEEDS(cudaMemset2DAsync(device.data() + 1024, 64, 0x33, 8, 4, s));
  SUCCEEDS(cudaStreamSynchronize(s));
  std::vector<unsigned char> const back = device.fetch();
  CHECK(back[99] == 0x11);
  CHECK(back[100] == 0x22);
  CHECK(back[149] == 0x22);
  CHECK(back[150] == 0x11);
  CHECK(back[1024 + 3 * 64 + 7] == 0x33);
  CHECK(back[1024 + 3 * 64 + 8] == 0x11);
  std::vector<char> pageable(16);
  RETURNS(cudaMemset(pageable.data(), 0, 16), cudaErrorInvalidValue);
  RETURNS(cudaMemset(device.data(), 0, std::size_t{1} << 40), cudaErrorInvalidValue);
}
