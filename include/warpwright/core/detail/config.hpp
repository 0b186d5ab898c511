// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Every macro of the library, but for the version's, lives here.
#pragma once

#include <warpwright/version.hpp>

// Set to 1 by the CMake target warpwright::host_runtime, never by hand: which CUDA runtime the
// program links, NVIDIA's or ours for machines without a GPU.
#ifndef WARPWRIGHT_HOST_RUNTIME
#define WARPWRIGHT_HOST_RUNTIME 0
#endif

#if WARPWRIGHT_HOST_RUNTIME && defined(__CUDACC__)
#error \
    "warpwright: the host runtime runs kernels on the CPU and is for g++/clang++; compile this file without nvcc, or link CUDA's runtime instead of warpwright::host_runtime"
#endif

#define WARPWRIGHT_JOIN_(a, b) a##b
#define WARPWRIGHT_JOIN(a, b) WARPWRIGHT_JOIN_(a, b)

#if WARPWRIGHT_HOST_RUNTIME
#define WARPWRIGHT_RUNTIME_TAG host
#else
#define WARPWRIGHT_RUNTIME_TAG cuda
#endif

// v0_1_cuda, v0_1_host: two versions, or the two runtimes, never mix silently in one program.
#define WARPWRIGHT_ABI_4(major, minor, runtime) v##major##_##minor##_##runtime
#define WARPWRIGHT_ABI_3(major, minor, runtime) WARPWRIGHT_ABI_4(major, minor, runtime)
#define WARPWRIGHT_ABI_NAMESPACE \
  WARPWRIGHT_ABI_3(WARPWRIGHT_VERSION_MAJOR, WARPWRIGHT_VERSION_MINOR, WARPWRIGHT_RUNTIME_TAG)

#define WARPWRIGHT_BEGIN \
  namespace warpwright { \
  inline namespace WARPWRIGHT_ABI_NAMESPACE {
#define WARPWRIGHT_END \
  }                    \
  }

// Templates whose body depends on the compiler (the launch seam, kernels) sit in this inner
// namespace, so that the instantiations of a .cu and of a .cpp never collide. It is hidden: a
// kernel is known only to the library that registered it, so neither kernels nor the functions that
// receive their addresses may be shared between two libraries.
#if defined(__GNUC__)
#define WARPWRIGHT_HIDDEN_NAMESPACE __attribute__((visibility("hidden")))
#else
#define WARPWRIGHT_HIDDEN_NAMESPACE
#endif
#if defined(__CUDACC__)
#define WARPWRIGHT_COMPILER_NAMESPACE nvcc
#else
#define WARPWRIGHT_COMPILER_NAMESPACE cxx
#endif
#define WARPWRIGHT_BEGIN_PER_COMPILER \
  WARPWRIGHT_BEGIN                    \
  inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {
#define WARPWRIGHT_END_PER_COMPILER \
  }                                 \
  WARPWRIGHT_END

#if defined(__CUDACC__)
#define WARPWRIGHT_HOST_DEVICE __host__ __device__
#else
#define WARPWRIGHT_HOST_DEVICE
#endif

// Whether this is device code for hardware that converts fp8: sm_90 and, since CUDA 12.1, sm_89.
#if !defined(__CUDA_ARCH__)
#define WARPWRIGHT_DEVICE_HAS_FP8 0
#elif __CUDA_ARCH__ == 890 && __CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ == 0
#define WARPWRIGHT_DEVICE_HAS_FP8 0
#else
#define WARPWRIGHT_DEVICE_HAS_FP8 (__CUDA_ARCH__ >= 890)
#endif

#if defined(__GNUC__)
#define WARPWRIGHT_COLD __attribute__((cold))
#define WARPWRIGHT_NOINLINE __attribute__((noinline))  // where it is declared but once
#define WARPWRIGHT_ALWAYS_INLINE inline __attribute__((always_inline))
#else
#define WARPWRIGHT_COLD
#define WARPWRIGHT_NOINLINE
#define WARPWRIGHT_ALWAYS_INLINE inline
#endif

// What a null stream handle means to this translation unit.
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM) || defined(__CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define WARPWRIGHT_DEFAULT_STREAM cudaStreamPerThread
#else
#define WARPWRIGHT_DEFAULT_STREAM cudaStreamLegacy
#endif
