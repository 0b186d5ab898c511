# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
#
# The installed package: headers, the sources of the host runtime, host NCCL and warpwright::compiled (compiled
# in the consumer's build, so that the package itself holds no machine code), and find_package files.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(warpwright_package_dir "${CMAKE_INSTALL_DATADIR}/cmake/warpwright")

install(
  DIRECTORY include/warpwright
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING
  PATTERN "*.hpp")
install(DIRECTORY src/compiled src/host_nccl src/host_runtime DESTINATION "${CMAKE_INSTALL_DATADIR}/warpwright/src")
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DATADIR}/warpwright")
install(
  TARGETS warpwright
  EXPORT warpwright_targets
  INCLUDES
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(
  EXPORT warpwright_targets
  NAMESPACE warpwright::
  DESTINATION "${warpwright_package_dir}")

configure_package_config_file(
  cmake/warpwrightConfig.cmake.in "${CMAKE_CURRENT_BINARY_DIR}/warpwrightConfig.cmake"
  INSTALL_DESTINATION "${warpwright_package_dir}"
  PATH_VARS CMAKE_INSTALL_DATADIR)
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(
  "${CMAKE_CURRENT_BINARY_DIR}/warpwrightConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/warpwrightConfig.cmake"
              "${CMAKE_CURRENT_BINARY_DIR}/warpwrightConfigVersion.cmake"
        DESTINATION "${warpwright_package_dir}")
