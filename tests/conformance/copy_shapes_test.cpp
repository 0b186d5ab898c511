// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Copies and fills of two and three dimensions: their results, the bytes around them, and
// invalid arguments.
#include <algorithm>

#include "conformance.hpp"

using namespace conformance;

namespace {

using bytes = std::vector<unsigned char>;

bytes counted(std::size_t count) {
  bytes values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<unsigned char>(i * 13 % 251);
  return values;
}

// A 3-D array of bytes in rows of `pitch` bytes and planes of `rows` rows.
struct box {
  std::size_t pitch, rows, planes;
  std::size_t size() const { return pitch * rows * planes; }
  std::size_t at(std::size_t x, std::size_t y, std::size_t z) const {
    return (z * rows + y) * pitch + x;
  }
  cudaPitchedPtr of(unsigned char* data) const { return pitched(data, pitch, rows); }
};

constexpr box source{20, 6, 4};
constexpr box target{32, 8, 5};

// A part of 9 x 3 x 2 bytes, from (2, 1, 1) to (4, 3, 2).
cudaMemcpy3DParms part(unsigned char* to, unsigned char* from, cudaMemcpyKind kind) {
  cudaMemcpy3DParms p = {};
  p.srcPtr = source.of(from);
  p.srcPos = {2, 1, 1};
  p.dstPtr = target.of(to);
  p.dstPos = {4, 3, 2};
  p.extent = {9, 3, 2};
  p.kind = kind;
  return p;
}

bytes with_part(bytes into, bytes const& from) {
  for (std::size_t z = 0; z < 2; ++z) {
    for (std::size_t y = 0; y < 3; ++y) {
      for (std::size_t x = 0; x < 9; ++x) {
        into[target.at(x + 4, y + 3, z + 2)] = from[source.at(x + 2, y + 1, z + 1)];
      }
    }
  }
  return into;
}

}  // namespace

TEST_CASE("pitched memory holds every row") {
  constexpr std::size_t width = 100, height = 7;
  unsigned char* p = nullptr;
  std::size_t pitch = 0;
  SUCCEEDS(cudaMallocPitch(reinterpret_cast<void**>(&p), &pitch, width, height));
  cudaDeviceProp properties = {};
  REQUIRE(cudaGetDeviceProperties(&properties, 0) == cudaSuccess);
  CHECK(pitch >= width);
  CHECK(pitch % properties.texturePitchAlignment == 0);
  bytes const values = counted(width * height);
  bytes back(width * height, 0);
  SUCCEEDS(cudaMemcpy2D(p, pitch, values.data(), width, width, height, cudaMemcpyHostToDevice));
  SUCCEEDS(cudaMemcpy2D(back.data(), width, p, pitch, width, height, cudaMemcpyDeviceToHost));
  CHECK(back == values);
  SUCCEEDS(cudaMemset(p, 0, pitch * height));  // the padding may be written as well
  SUCCEEDS(cudaFree(p));
  constexpr std::size_t mebi = std::size_t{1} << 20;
  RETURNS(cudaMallocPitch(reinterpret_cast<void**>(&p), &pitch, mebi, mebi),
          cudaErrorMemoryAllocation);
  RETURNS(cudaMallocPitch(nullptr, &pitch, width, height), cudaErrorInvalidValue);
  RETURNS(cudaMallocPitch(reinterpret_cast<void**>(&p), nullptr, width, height),
          cudaErrorInvalidValue);
}

TEST_CASE("2-D copies to, on and from the device change only their rows") {
  constexpr std::size_t width = 11, height = 6;
  constexpr std::size_t host_pitch = 13, a_pitch = 32, b_pitch = 48, back_pitch = 17;
  bytes const values = counted(host_pitch * height);
  device_memory<unsigned char> const a(a_pitch * height), b(b_pitch * height);
  bytes back(back_pitch * height, 0x55);
  SUCCEEDS(cudaMemset(a.data(), 0xaa, a.bytes()));
  SUCCEEDS(cudaMemset(b.data(), 0xbb, b.bytes()));
  SUCCEEDS(cudaMemcpy2D(a.data(), a_pitch, values.data(), host_pitch, width, height,
                        cudaMemcpyHostToDevice));
  SUCCEEDS(
      cudaMemcpy2D(b.data(), b_pitch, a.data(), a_pitch, width, height, cudaMemcpyDeviceToDevice));
  SUCCEEDS(
      cudaMemcpy2D(back.data(), back_pitch, b.data(), b_pitch, width, height, cudaMemcpyDefault));
  bytes in_a(a.bytes(), 0xaa), in_b(b.bytes(), 0xbb), in_back(back.size(), 0x55);
  for (std::size_t y = 0; y < height; ++y) {
    for (std::size_t x = 0; x < width; ++x) {
      unsigned char const value = values[y * host_pitch + x];
      in_a[y * a_pitch + x] = in_b[y * b_pitch + x] = in_back[y * back_pitch + x] = value;
    }
  }
  CHECK(a.fetch() == in_a);
  CHECK(b.fetch() == in_b);
  CHECK(back == in_back);
}

TEST_CASE("2-D copies are stream-ordered") {
  gate closed;
  stream const s;
  constexpr std::size_t width = 10, height = 4, pitch = 16;
  device_memory<unsigned char> const device(pitch * height);
  pinned_memory<unsigned char> const pinned(pitch * height), back(pitch * height);
  std::fill_n(pinned.data(), pinned.bytes(), static_cast<unsigned char>(7));
  std::fill_n(back.data(), back.bytes(), static_cast<unsigned char>(0));
  SUCCEEDS(cudaMemset(device.data(), 1, device.bytes()));
  SUCCEEDS(cudaDeviceSynchronize());
  SUCCEEDS(closed.block(s));
  SUCCEEDS(cudaMemcpy2DAsync(device.data(), pitch, pinned.data(), pitch, width, height,
                             cudaMemcpyHostToDevice, s));
  SUCCEEDS(cudaMemcpy2DAsync(back.data(), pitch, device.data(), pitch, pitch, height,
                             cudaMemcpyDeviceToHost, s));
  RETURNS(cudaStreamQuery(s), cudaErrorNotReady);
  CHECK(back.data()[0] == 0);
  closed.open();
  SUCCEEDS(cudaStreamSynchronize(s));
  CHECK(back.data()[3 * pitch + 9] == 7);
  CHECK(back.data()[3 * pitch + 10] == 1);
}

TEST_CASE("the pageable source of a 2-D copy may be reused when the call returns") {
  stream const s;
  constexpr std::size_t width = 10, height = 4, pitch = 16;
  bytes values(pitch * height, 3);
  device_memory<unsigned char> const device(pitch * height);
  SUCCEEDS(cudaMemset(device.data(), 1, device.bytes()));
  SUCCEEDS(cudaDeviceSynchronize());
  SUCCEEDS(cudaMemcpy2DAsync(device.data(), pitch, values.data(), pitch, width, height,
                             cudaMemcpyHostToDevice, s));
  values.assign(values.size(), 4);
  SUCCEEDS(cudaStreamSynchronize(s));
  bytes const back = device.fetch();
  CHECK(back[3 * pitch + 9] == 3);
  CHECK(back[3 * pitch + 10] == 1);
}

TEST_CASE("invalid 2-D copies") {
  stream const s;
  device_memory<unsigned char> const device(256);
  bytes host(256);
  RETURNS(cudaMemcpy2D(device.data(), 16, host.data(), 8, 16, 4, cudaMemcpyHostToDevice),
          cudaErrorInvalidPitchValue);
  RETURNS(cudaMemcpy2DAsync(device.data(), 8, host.data(), 16, 16, 4, cudaMemcpyHostToDevice, s),
          cudaErrorInvalidPitchValue);
  RETURNS(cudaMemcpy2DAsync(device.data(), 16, host.data(), 8, 16, 4, cudaMemcpyHostToDevice, s),
          cudaErrorInvalidPitchValue);
  constexpr int no_kind = 7;  // the largest value that the enumeration can hold
  RETURNS(
      cudaMemcpy2D(device.data(), 16, host.data(), 16, 16, 4, static_cast<cudaMemcpyKind>(no_kind)),
      cudaErrorInvalidMemcpyDirection);
  RETURNS(cudaMemcpy2DAsync(device.data(), 16, host.data(), 16, 16, 4,
                            static_cast<cudaMemcpyKind>(no_kind), s),
          cudaErrorInvalidMemcpyDirection);
  RETURNS(cudaMemcpy2D(nullptr, 16, host.data(), 16, 16, 4, cudaMemcpyHostToDevice),
          cudaErrorInvalidValue);
}

TEST_CASE("3-D copies to, on and from the device change only their box") {
  bytes values = counted(source.size());
  device_memory<unsigned char> const up(target.size()), from(source.size()), across(target.size());
  SUCCEEDS(cudaMemset(up.data(), 0xaa, up.bytes()));
  SUCCEEDS(cudaMemset(across.data(), 0xbb, across.bytes()));
  SUCCEEDS(cudaMemcpy(from.data(), values.data(), from.bytes(), cudaMemcpyHostToDevice));
  cudaMemcpy3DParms p = part(up.data(), values.data(), cudaMemcpyHostToDevice);
  SUCCEEDS(cudaMemcpy3D(&p));
  CHECK(up.fetch() == with_part(bytes(target.size(), 0xaa), values));
  p = part(across.data(), from.data(), cudaMemcpyDeviceToDevice);
  SUCCEEDS(cudaMemcpy3D(&p));
  CHECK(across.fetch() == with_part(bytes(target.size(), 0xbb), values));
  for (cudaMemcpyKind const kind : {cudaMemcpyDeviceToHost, cudaMemcpyDefault}) {
    bytes down(target.size(), 0x55);
    p = part(down.data(), from.data(), kind);
    SUCCEEDS(cudaMemcpy3D(&p));
    CHECK(down == with_part(bytes(target.size(), 0x55), values));
  }
}

TEST_CASE("3-D copies are stream-ordered") {
  gate closed;
  stream const s;
  bytes const values = counted(source.size());
  pinned_memory<unsigned char> const pinned(source.size());
  std::copy(values.begin(), values.end(), pinned.data());
  device_memory<unsigned char> const device(target.size());
  SUCCEEDS(cudaMemset(device.data(), 0xaa, device.bytes()));
  SUCCEEDS(cudaDeviceSynchronize());
  SUCCEEDS(closed.block(s));
  cudaMemcpy3DParms p = part(device.data(), pinned.data(), cudaMemcpyHostToDevice);
  SUCCEEDS(cudaMemcpy3DAsync(&p, s));
  p = {};  // the call copies the parameters
  RETURNS(cudaStreamQuery(s), cudaErrorNotReady);
  closed.open();
  SUCCEEDS(cudaStreamSynchronize(s));
  CHECK(device.fetch() == with_part(bytes(target.size(), 0xaa), values));
}

TEST_CASE("invalid 3-D copies") {
  stream const s;
  bytes values = counted(source.size());
  device_memory<unsigned char> const device(target.size());
  cudaMemcpy3DParms const good = part(device.data(), values.data(), cudaMemcpyHostToDevice);
  cudaMemcpy3DParms p = good;
  SECTION("rows that are wider than the pitch") {
    p.dstPtr.pitch = 8;
    FAILS(cudaMemcpy3D(&p));
    FAILS(cudaMemcpy3DAsync(&p, s));
  }
  SECTION("a part that passes the end of a row") {
    p.srcPos.x = 12;
    FAILS(cudaMemcpy3D(&p));
  }
  SECTION("a part that passes the last row of a plane") {
    p.srcPos.y = 4;
    FAILS(cudaMemcpy3D(&p));
  }
  SECTION("no source") {
    p.srcPtr.ptr = nullptr;
    FAILS(cudaMemcpy3D(&p));
  }
  SECTION("no kind") {
    constexpr int no_kind = 7;  // the largest value that the enumeration can hold
    p.kind = static_cast<cudaMemcpyKind>(no_kind);
    RETURNS(cudaMemcpy3D(&p), cudaErrorInvalidMemcpyDirection);
    RETURNS(cudaMemcpy3DAsync(&p, s), cudaErrorInvalidMemcpyDirection);
  }
}

TEST_CASE("2-D fills change only their rows") {
  constexpr std::size_t width = 9, height = 5, pitch = 24;
  stream const s;
  device_memory<unsigned char> const device(pitch * height);
  bytes expected(pitch * height, 0x11);
  SUCCEEDS(cudaMemset(device.data(), 0x11, device.bytes()));
  SUCCEEDS(
      cudaMemset2D(device.data() + 3, pitch, 0x122, width, height));  // only the low byte is used
  SUCCEEDS(cudaDeviceSynchronize());
  SUCCEEDS(cudaMemset2DAsync(device.data() + 15, pitch, 0x33, 2, height, s));
  SUCCEEDS(cudaStreamSynchronize(s));
  for (std::size_t y = 0; y < height; ++y) {
    for (std::size_t x = 0; x < width; ++x) expected[y * pitch + 3 + x] = 0x22;
    for (std::size_t x = 0; x < 2; ++x) expected[y * pitch + 15 + x] = 0x33;
  }
  CHECK(device.fetch() == expected);
}

TEST_CASE("invalid 2-D fills") {
  stream const s;
  device_memory<unsigned char> const device(256);
  RETURNS(cudaMemset2D(device.data(), 8, 0, 16, 4), cudaErrorInvalidValue);
  RETURNS(cudaMemset2DAsync(device.data(), 8, 0, 16, 4, s), cudaErrorInvalidValue);
  RETURNS(cudaMemset2D(nullptr, 16, 0, 16, 4), cudaErrorInvalidValue);
  bytes pageable(64);
  RETURNS(cudaMemset2D(pageable.data(), 16, 0, 16, 4), cudaErrorInvalidValue);
}
