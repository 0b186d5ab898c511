// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The functions of NVML that energy_counter calls, built as libnvidia-ml.so.1 for its test.
#include <cstring>

#include "fake_nvml.hpp"

namespace {

fake_nvml_state state;

int end_of(int code) { return state.sessions > 0 ? code : 1; }  // NVML_ERROR_UNINITIALIZED

}  // namespace

extern "C" {

fake_nvml_state* fake_nvml() { return &state; }

int nvmlInit_v2() {
  if (state.init_code == 0) ++state.sessions;
  return state.init_code;
}
int nvmlShutdown() {
  --state.sessions;
  return 0;
}
char const* nvmlErrorString(int code) {
  return code == 3 ? "Not Supported" : code == 6 ? "Not Found" : nullptr;
}
int nvmlDeviceGetHandleByUUID(char const* uuid, void** device) {
  std::strncpy(state.uuid, uuid, sizeof state.uuid - 1);
  *device = &state;
  return end_of(state.find_code);
}
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  if (device != &state) return 2;  // NVML_ERROR_INVALID_ARGUMENT
  *millijoules = state.millijoules;
  return end_of(state.energy_code);
}
}
