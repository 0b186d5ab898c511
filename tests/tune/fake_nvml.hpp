// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the fake NVML answers, and what has been asked of it.
struct fake_nvml_state {
  int init_code = 0;
  int find_code = 0;
  int energy_code = 0;
  unsigned long long millijoules = 0;
  int sessions = 0;
  char uuid[64] = {};
};
