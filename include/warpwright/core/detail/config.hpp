// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// All macros of the library, except the version's.
#pragma once

#include <warpwright/version.hpp>

// After #error a compiler goes on, and hides it among hundreds; only a missing file stops it.
#if __cplusplus < 201703L
#error \
    "warpwright: C++17 or later is needed; compile with -std=c++17, or in CMake link the target warpwright::warpwright, which asks for it"
#include <warpwright/stops_here_without_cxx17>
#elif defined(__GNUC__) && !defined(__EXCEPTIONS)
#error \
    "warpwright: exceptions are needed, they report errors; compile this file without -fno-exceptions"
#include <warpwright/stops_here_without_exceptions>
#endif

// 1 if the program links warpwright's host runtime instead of NVIDIA's runtime. Do not define it by
// hand: the CMake target warpwright::host_runtime does.
#ifndef WARPWRIGHT_HOST_RUNTIME
#define WARPWRIGHT_HOST_RUNTIME 0
#endif

#if WARPWRIGHT_HOST_RUNTIME && defined(__CUDACC__)
#error \
    "warpwright: the host runtime runs kernels on the CPU and is for g++/clang++; compile this file without nvcc, or link CUDA's runtime instead of warpwright::host_runtime"
#endif

// 1 if the program links warpwright::compiled, whose headers only declare what is not a template
// and not short; src/compiled defines it. Do not define it by hand: the CMake target does. Files
// with and without it have the same types and functions, and may be linked into one program.
#ifndef WARPWRIGHT_COMPILED
#define WARPWRIGHT_COMPILED 0
#endif
// Before the functions of the *_definitions.hpp, which a header includes unless
// WARPWRIGHT_COMPILED.
#if WARPWRIGHT_COMPILED
#define WARPWRIGHT_INLINE
#else
#define WARPWRIGHT_INLINE inline
#endif

// 1: kernels check indices, see kernel/indices.hpp. Files of one program may differ in it.
#ifndef WARPWRIGHT_CHECK_INDICES
#define WARPWRIGHT_CHECK_INDICES WARPWRIGHT_HOST_RUNTIME
#endif

#define WARPWRIGHT_JOIN_(a, b) a##b
#define WARPWRIGHT_JOIN(a, b) WARPWRIGHT_JOIN_(a, b)

#if WARPWRIGHT_HOST_RUNTIME
#define WARPWRIGHT_RUNTIME_TAG host
#else
#define WARPWRIGHT_RUNTIME_TAG cuda
#endif

// v0_1_cuda, v0_1_host: a program that mixes two versions, or the two runtimes, does not link.
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

// Templates whose body depends on the compiler (kernels and their launch) are in this inner
// namespace, so that the instantiations of a .cu and of a .cpp file have different names. It has
// hidden visibility: CUDA registers a kernel per library, so two libraries must not share a kernel
// or a function that receives a kernel's address.
#if defined(__GNUC__)
#define WARPWRIGHT_HIDDEN_NAMESPACE __attribute__((visibility("hidden")))
#else
#define WARPWRIGHT_HIDDEN_NAMESPACE
#endif
// How kernels are launched (core/launch.hpp) is a part of the name, too.
#ifndef WARPWRIGHT_NO_EARLY_LAUNCH
#define WARPWRIGHT_NO_EARLY_LAUNCH 0
#endif
#ifndef WARPWRIGHT_NO_DRIVER_LAUNCH
#define WARPWRIGHT_NO_DRIVER_LAUNCH 0
#endif
#if !defined(__CUDACC__)
#define WARPWRIGHT_COMPILER_NAMESPACE cxx
#elif WARPWRIGHT_NO_EARLY_LAUNCH && WARPWRIGHT_NO_DRIVER_LAUNCH
#define WARPWRIGHT_COMPILER_NAMESPACE nvcc_plain_launch
#elif WARPWRIGHT_NO_EARLY_LAUNCH
#define WARPWRIGHT_COMPILER_NAMESPACE nvcc_no_early_launch
#elif WARPWRIGHT_NO_DRIVER_LAUNCH
#define WARPWRIGHT_COMPILER_NAMESPACE nvcc_no_driver_launch
#else
#define WARPWRIGHT_COMPILER_NAMESPACE nvcc
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

// Whether nvcc compiles this file as CUDA; clang knows none of its pragmas, and not
// __grid_constant__ before version 20.
#if defined(__CUDACC__) && defined(__NVCC__)
#define WARPWRIGHT_NVCC 1
#else
#define WARPWRIGHT_NVCC 0
#endif

// Whether this is device code for hardware with fp8 conversions: sm_90, and from CUDA 12.1 sm_89.
#if !defined(__CUDA_ARCH__)
#define WARPWRIGHT_DEVICE_HAS_FP8 0
#elif __CUDA_ARCH__ == 890 && __CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ == 0
#define WARPWRIGHT_DEVICE_HAS_FP8 0
#else
#define WARPWRIGHT_DEVICE_HAS_FP8 (__CUDA_ARCH__ >= 890)
#endif

// WARPWRIGHT_COLD: compiled for size, as it runs seldom: a third less to compile.
// WARPWRIGHT_COLD_ENTRY: on what calls such functions in any case, and is called in any case
// itself. g++ takes a function for seldom if all of its paths call such a one, and so its callers:
// this is where that ends, before it comes to a user's function. WARPWRIGHT_NOINLINE: on one
// declaration; for a member function that is inline, on the definition.
#if defined(__GNUC__)
#define WARPWRIGHT_COLD __attribute__((cold))
#if defined(__clang__)
#define WARPWRIGHT_NOINLINE __attribute__((noinline))
#define WARPWRIGHT_COLD_ENTRY __attribute__((noinline))
#else
#define WARPWRIGHT_NOINLINE __attribute__((noinline, noclone))  // nor compiled once a caller
#define WARPWRIGHT_COLD_ENTRY __attribute__((noipa))
#endif
#define WARPWRIGHT_ALWAYS_INLINE inline __attribute__((always_inline))
#else
#define WARPWRIGHT_COLD
#define WARPWRIGHT_COLD_ENTRY
#define WARPWRIGHT_NOINLINE
#define WARPWRIGHT_ALWAYS_INLINE inline
#endif

// Around definitions with WARPWRIGHT_NOINLINE. nvcc with -static-global-template-stub=false makes
// the declarations in their classes inline, and g++ warns of noinline behind that.
#if defined(__CUDACC__) && defined(__GNUC__) && !defined(__clang__)
#define WARPWRIGHT_BEGIN_DEFINITIONS \
  _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wattributes\"") WARPWRIGHT_BEGIN
#define WARPWRIGHT_END_DEFINITIONS WARPWRIGHT_END _Pragma("GCC diagnostic pop")
#else
#define WARPWRIGHT_BEGIN_DEFINITIONS WARPWRIGHT_BEGIN
#define WARPWRIGHT_END_DEFINITIONS WARPWRIGHT_END
#endif

// Whether __builtin_clear_padding is there: g++ has it, and so has nvcc with g++ as the host's
// compiler; no clang has.
#define WARPWRIGHT_CLEARS_PADDING 0
#if defined(__has_builtin) && defined(__GNUC__) && !defined(__clang__)
#if __GNUC__ >= 11 && __has_builtin(__builtin_clear_padding)
#undef WARPWRIGHT_CLEARS_PADDING
#define WARPWRIGHT_CLEARS_PADDING 1
#endif
#endif

// Lets the template that follows, for the host and the device, call functions of either alone.
#if WARPWRIGHT_NVCC
#define WARPWRIGHT_NO_EXEC_CHECK _Pragma("nv_exec_check_disable")
#else
#define WARPWRIGHT_NO_EXEC_CHECK
#endif

// Unrolls the loop that follows, or keeps it a loop, in device code alone.
#if defined(__CUDA_ARCH__)
#define WARPWRIGHT_UNROLL _Pragma("unroll")
#define WARPWRIGHT_NO_UNROLL _Pragma("unroll 1")
#else
#define WARPWRIGHT_UNROLL
#define WARPWRIGHT_NO_UNROLL
#endif

// Initialises, on the host alone, what a thread sets and uses under one condition: g++ cannot prove
// that, and would warn.
#if defined(__CUDA_ARCH__)
#define WARPWRIGHT_ZERO_ON_HOST
#else
#define WARPWRIGHT_ZERO_ON_HOST = {}
#endif

// The stream that a null handle stands for in this translation unit.
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM) || defined(__CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define WARPWRIGHT_DEFAULT_STREAM cudaStreamPerThread
#else
#define WARPWRIGHT_DEFAULT_STREAM cudaStreamLegacy
#endif
