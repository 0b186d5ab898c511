// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Resources: classes with memory_pool's interface (allocate, try_allocate, deallocate, device) that
// are no pools of this library. Adaptors, buffers and resource_ref use them as they use a pool.
//
//   ww::cuda_malloc_resource plain{device};            // cudaMalloc, cudaFree
//   ww::cuda_malloc_async_resource driver{device};     // a cudaMemPool_t of its own
//   auto shared = ww::cuda_malloc_async_resource::from_default_pool(device);
//   ww::managed_memory_resource managed{device};       // cudaMallocManaged
//   ww::pinned_memory_resource pinned{pinned_pool};    // page-locked host memory
//   ww::pageable_memory_resource pageable;             // the C library's memory
//   ww::callback_resource own{device, allocate, deallocate};  // functions of the program
#pragma once

#include <warpwright/memory/resources/callback.hpp>
#include <warpwright/memory/resources/cuda_malloc.hpp>
#include <warpwright/memory/resources/cuda_malloc_async.hpp>
#include <warpwright/memory/resources/managed.hpp>
#include <warpwright/memory/resources/pageable.hpp>
#include <warpwright/memory/resources/pinned.hpp>
