// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// With the real headers. On the host runtime the few functions of cuBLAS that the scope calls are
// written here, and behave as cuBLAS documents; on a GPU it is cuBLAS.
#include "support/catch.hpp"
#include "support/device_memory.hpp"

#include <warpwright/graph/capture.hpp>
#include <warpwright/graph/compare_graphs.hpp>
#include <warpwright/graph/graph_cache.hpp>
#include <warpwright/graph/graph_exec.hpp>
#include <warpwright/interop/cublas.hpp>

#include <stdexcept>
#include <string>
#include <vector>

namespace ww = warpwright;
using test_support::device_array;

#if WARPWRIGHT_HOST_RUNTIME

namespace {

// What a handle is bound to, and the calls so far.
struct fake_handle {
  cudaStream_t stream = nullptr;
  void* workspace = nullptr;  // null: cuBLAS's own
  std::size_t bytes = 0;
  std::string calls;
  std::string failing;  // the call that fails
};

fake_handle& fake(cublasHandle_t handle) { return *reinterpret_cast<fake_handle*>(handle); }

cublasStatus_t called(cublasHandle_t handle, char const* name) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  fake(handle).calls += std::string{name} + " ";
  return fake(handle).failing == name ? CUBLAS_STATUS_INTERNAL_ERROR : CUBLAS_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t* stream) {
  cublasStatus_t const status = called(handle, "get_stream");
  if (status == CUBLAS_STATUS_SUCCESS) *stream = fake(handle).stream;
  return status;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  cublasStatus_t const status = called(handle, "set_stream");
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  fake(handle).stream = stream;
  fake(handle).workspace = nullptr;  // as cuBLAS documents
  fake(handle).bytes = 0;
  return status;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, size_t bytes) {
  cublasStatus_t const status = called(handle, "set_workspace");
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (reinterpret_cast<std::size_t>(workspace) % 256 != 0) return CUBLAS_STATUS_INVALID_VALUE;
  fake(handle).workspace = workspace;
  fake(handle).bytes = bytes;
  return status;
}

char const* cublasGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_INVALID_VALUE ? "an invalid value" : "an error";
}

}  // extern "C"

namespace {

struct handle_owner {
  operator cublasHandle_t() { return reinterpret_cast<cublasHandle_t>(&fake); }
  fake_handle fake;
};

}  // namespace

TEST_CASE("a scope binds the stream, then the workspace, and restores the stream") {
  handle_owner handle;
  ww::stream before, s;
  handle.fake.stream = before.get();
  device_array<float> const workspace{1024};
  {
    ww::cublas_scope const bound{handle, s, workspace.data(), 4096};
    CHECK(bound.handle() == static_cast<cublasHandle_t>(handle));
    CHECK(handle.fake.stream == s.get());
    CHECK(handle.fake.workspace == workspace.data());
    CHECK(handle.fake.bytes == 4096);
  }
  CHECK(handle.fake.stream == before.get());
  CHECK(handle.fake.workspace == nullptr);
  CHECK(handle.fake.calls == "get_stream set_stream set_workspace set_stream ");
}

TEST_CASE("scopes nest: the inner one's end restores the outer one's stream and workspace") {
  handle_owner handle, other;
  ww::stream a, b;
  device_array<float> const workspace{1024};
  {
    ww::cublas_scope const outer{handle, a, workspace.data(), 1024};
    ww::cublas_scope const of_other{other, b, workspace.data() + 512, 2048};
    {
      ww::cublas_scope const inner{handle, b, workspace.data() + 256, 512};
      CHECK(handle.fake.stream == b.get());
      CHECK(handle.fake.workspace == workspace.data() + 256);
    }
    CHECK(handle.fake.stream == a.get());
    CHECK(handle.fake.workspace == workspace.data());
    CHECK(handle.fake.bytes == 1024);
    // Nor does a scope that fails drop it.
    CHECK_THROWS_AS((ww::cublas_scope{handle, b, workspace.data() + 1, 512}), ww::cublas_error);
    CHECK(handle.fake.stream == a.get());
    CHECK(handle.fake.workspace == workspace.data());
    CHECK(other.fake.workspace == workspace.data() + 512);
  }
  CHECK(handle.fake.stream == nullptr);
  CHECK(handle.fake.workspace == nullptr);
}

TEST_CASE("a scope does not give its workspace to a stream that the program has set since") {
  handle_owner handle;
  ww::stream a, b;
  device_array<float> const workspace{1024};
  ww::cublas_scope const outer{handle, a, workspace.data(), 1024};
  REQUIRE(cublasSetStream(handle, b.get()) == CUBLAS_STATUS_SUCCESS);
  { ww::cublas_scope const inner{handle, a, workspace.data() + 256, 512}; }
  CHECK(handle.fake.stream == b.get());
  CHECK(handle.fake.workspace == nullptr);
}

TEST_CASE("an exception leaves the handle as it was") {
  handle_owner handle;
  ww::stream s;
  device_array<float> const workspace{1024};
  CHECK_THROWS_AS(ww::capture(s,
                              [&](ww::stream_ref c) {
                                ww::cublas_scope const bound{handle, c, workspace.data(), 4096};
                                throw std::length_error{"x"};
                              }),
                  std::length_error);
  CHECK(handle.fake.stream == nullptr);
  CHECK(handle.fake.workspace == nullptr);
}

TEST_CASE("calls of cuBLAS that fail are reported, and the handle is unchanged") {
  ww::stream s;
  device_array<float> const workspace{1024};
  for (char const* const failing : {"get_stream", "set_stream", "set_workspace"}) {
    INFO(failing);
    handle_owner handle;
    handle.fake.failing = failing;
    try {
      ww::cublas_scope const bound{handle, s, workspace.data(), 4096};
      FAIL("no exception");
    } catch (ww::cublas_error const& error) {
      CHECK(error.status() == CUBLAS_STATUS_INTERNAL_ERROR);
      CHECK_THAT(error.what(), contains("cublas_test.cpp"));
    }
    CHECK(handle.fake.stream == nullptr);
  }
  CHECK_THROWS_AS((ww::cublas_scope{nullptr, s, workspace.data(), 4096}), ww::cublas_error);
}

TEST_CASE("a workspace that is not aligned, or null, is refused with the remedy") {
  handle_owner handle;
  ww::stream s;
  device_array<float> const workspace{1024};
  CHECK_THROWS_WITH((ww::cublas_scope{handle, s, workspace.data() + 1, 4092}),
                    contains("cublasSetWorkspace: an invalid value (7): the workspace must be "
                             "device memory, aligned to 256 bytes"));
  CHECK(handle.fake.stream == nullptr);
  CHECK_THROWS_AS((ww::cublas_scope{handle, s, nullptr, 4096}), std::invalid_argument);
}

#else

TEST_CASE("a product in a captured graph uses the workspace, and the stream is restored") {
  cublasHandle_t handle = nullptr;
  REQUIRE(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
  {
    ww::stream before, s;
    REQUIRE(cublasSetStream(handle, before.get()) == CUBLAS_STATUS_SUCCESS);
    constexpr int n = 64;
    std::size_t const bytes = ww::cublas_workspace_bytes(9);
    device_array<unsigned char> const workspace{bytes};
    device_array<float> const a{std::vector<float>(n * n, 1.0F)},
        b{std::vector<float>(n * n, 2.0F)}, c{std::vector<float>(n * n, 0.0F)};
    float const one = 1.0F;
    auto const multiply = [&](ww::stream_ref on) {
      ww::cublas_scope const bound{handle, on, workspace.data(), bytes};
      REQUIRE(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a.data(), n, b.data(), n,
                          &one, c.data(), n) == CUBLAS_STATUS_SUCCESS);
    };
    multiply(s);
    s.synchronize();
    ww::graph const product = ww::capture(s, multiply);
    CHECK(product.node_counts().allocations == 0);
    ww::graph_exec exec{product};
    exec.launch(s);
    CHECK(c.fetch(s)[n] == 2.0F * 2.0F * n);
    cudaStream_t after = nullptr;
    CHECK(cublasGetStream(handle, &after) == CUBLAS_STATUS_SUCCESS);
    CHECK(after == before.get());
    REQUIRE(cublasSetStream(handle, nullptr) == CUBLAS_STATUS_SUCCESS);
  }
  CHECK(cublasDestroy(handle) == CUBLAS_STATUS_SUCCESS);
}

TEST_CASE("kernels that the runtime does not know are compared: cuBLAS") {
  cublasHandle_t handle = nullptr;
  REQUIRE(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
  for (int const n : {24, 64, 1000}) {
    INFO(n);
    ww::stream s;
    std::size_t const bytes = ww::cublas_workspace_bytes(9);
    device_array<unsigned char> const workspace{bytes};
    auto const size = static_cast<std::size_t>(n) * static_cast<std::size_t>(n);
    device_array<float> const a{size}, b{size}, c{size};
    float alpha = 1.0F;
    float const zero = 0.0F;
    ww::graph_cache cache{ww::graph_cache_options{}.cost_gate(false).verify_every(1)};
    auto const step = [&] {
      cache.run(s, {1}, [&](ww::stream_ref on) {
        ww::cublas_scope const bound{handle, on, workspace.data(), bytes};
        REQUIRE(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &alpha, a.data(), n,
                            b.data(), n, &zero, c.data(), n) == CUBLAS_STATUS_SUCCESS);
      });
    };
    for (int i = 0; i < 6; ++i) CHECK_NOTHROW(step());
    CHECK(cache.statistics().replays > 2);
    alpha = 2.0F;
    CHECK_THROWS_AS(step(), ww::graph_mismatch);
    s.synchronize();
  }
  REQUIRE(cublasSetStream(handle, nullptr) == CUBLAS_STATUS_SUCCESS);
  CHECK(cublasDestroy(handle) == CUBLAS_STATUS_SUCCESS);
}

#endif

TEST_CASE("the recommended workspace") {
  CHECK(ww::cublas_workspace_bytes(8) == std::size_t{4} << 20U);
  CHECK(ww::cublas_workspace_bytes(9) == std::size_t{32} << 20U);
  CHECK(ww::cublas_workspace_bytes(10) == std::size_t{32} << 20U);
  CHECK(ww::cublas_workspace_bytes(12) == std::size_t{12} << 20U);
}
