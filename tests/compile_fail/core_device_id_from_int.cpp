// expect: conversion from
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A size, a priority or a flag never passes for a device.
#include <warpwright/core/device.hpp>

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
warpwright::device_id const device{0};
#else
warpwright::device_id const device = 0;
#endif
