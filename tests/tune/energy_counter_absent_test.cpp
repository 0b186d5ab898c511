// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// energy_counter on a machine without NVML, or whose NVML does not know the host runtime's device.
#include <warpwright/tune/energy_counter.hpp>

#include <stdexcept>
#include <string>

#include "support/catch.hpp"

namespace ww = warpwright;

TEST_CASE("without NVML there is no energy counter, and the error says where it comes from",
          "[tune][energy_counter]") {
  CHECK_FALSE(ww::energy_counter::try_open(ww::device_id{0}));
  std::string error;
  try {
    ww::energy_counter const counter{ww::device_id{0}};
  } catch (std::runtime_error const& e) {
    error = e.what();
  }
  INFO(error);
  CHECK((error.find("NVML comes with the NVIDIA driver") != std::string::npos ||
         error.find("NVML must see the GPU that CUDA sees") != std::string::npos));
}
