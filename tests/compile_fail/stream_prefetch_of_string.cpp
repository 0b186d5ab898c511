// expect: warpwright::prefetcher<T> copies elements as bytes: T must be trivially copyable
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/stream/prefetch.hpp>

#include <string>

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
void run(warpwright::prefetcher<char>& batches) { batches.stop(); }
#else
void run(warpwright::prefetcher<std::string>& batches) { batches.stop(); }
#endif
