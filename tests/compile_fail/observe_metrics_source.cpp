// expect: needs a function void add_metrics(ww::metrics_writer&, T const&) for its result
// errors: 1
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/observe/metrics.hpp>

struct queue {
  int statistics() const { return 0; }
};

void add(warpwright::metrics_page& page, queue& q) { page.add("queue", q); }
