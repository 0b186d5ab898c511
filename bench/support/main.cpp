// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The main() of every benchmark that has none of its own.
#include "run.hpp"

int main(int argc, char** argv) { return bench_support::run(argc, argv); }
