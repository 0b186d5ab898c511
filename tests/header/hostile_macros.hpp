// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Macros of other projects' headers, after the standard headers that warpwright includes: those of
// C and C++ do not stand them. <complex.h> defines I, in g++'s and clang++'s GNU modes.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <complex.h>
#ifndef I
#define I (__extension__ 1.0iF)
#endif

// <QObject>, unless QT_NO_KEYWORDS is defined
#define slots
#define signals public
#define emit
#define foreach(variable, container) for (variable : container)
#define forever for (;;)

// <windows.h>
#define min(a, b) (((a) < (b)) ? (a) : (b))
#define max(a, b) (((a) > (b)) ? (a) : (b))
#define near
#define far
#define small char
#define interface struct
#define IN
#define OUT
#define OPTIONAL
#define ERROR 0
#define DELETE 0x00010000L
#define NO_ERROR 0
#define IGNORE 0
#define STRICT 1
#define TRUE 1
#define FALSE 0
#define VOID void
#define CONST const

// <X11/X.h> and <X11/Xlib.h>
#define Bool int
#define Status int
#define None 0L
#define Always 2
#define Success 0
#define Unsorted 0
#define True 1
#define False 0

// <sys/sysmacros.h>, and g++'s GNU modes
#define major(device) ((device) >> 8)
#define minor(device) ((device)&255)
#undef unix
#define unix 1
#undef linux
#define linux 1
