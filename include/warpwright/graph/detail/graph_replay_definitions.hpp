// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/graph/graph_replay.hpp>

#include <utility>

WARPWRIGHT_BEGIN

WARPWRIGHT_INLINE graph_update_result graph_replay::adopt(graph captured, source_location where) {
  graph_update outcome;
  if (exec_.get() == nullptr) {
    exec_ = graph_exec{captured, flags_, where};
    outcome.result = graph_update_result::reinstantiated;
  } else {
    outcome = exec_.update(captured, where);
  }
  ++counts_.captures;
  ++(outcome.result == graph_update_result::updated ? counts_.updates : counts_.instantiations);
  captured_ = std::move(captured);
  last_update_ = std::move(outcome);
  last_update_.node = nullptr;  // of the graph that is destroyed at the next capture
  return last_update_.result;
}

WARPWRIGHT_END
