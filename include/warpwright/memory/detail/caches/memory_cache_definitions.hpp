// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/cache.hpp>

WARPWRIGHT_BEGIN

WARPWRIGHT_INLINE void memory_cache::clear() noexcept {
  pool_->core_.caches().flush(cache_->blocks);
}

WARPWRIGHT_INLINE void memory_cache::end() noexcept {
  if (cache_ == nullptr) return;
  pool_->core_.caches().remove(*cache_);
  delete cache_;
  cache_ = nullptr;
}

WARPWRIGHT_INLINE memory_cache memory_pool::make_cache(stream_ref stream, std::size_t budget_bytes,
                                                       source_location where) {
  return memory_cache{*this, stream, budget_bytes, where};
}

WARPWRIGHT_END
