# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
#
# warpwright::nccl: what links NCCL, for the headers of scale/. There is none where NCCL is not found; set
# NCCL_ROOT to the folder that has include/nccl.h and lib/libnccl.so (or libnccl.so.2, as PyPI's nvidia-nccl has).
find_path(
  WARPWRIGHT_NCCL_INCLUDE_DIR nccl.h
  HINTS "${NCCL_ROOT}" "$ENV{NCCL_ROOT}" ${CUDAToolkit_INCLUDE_DIRS}
  PATH_SUFFIXES include
  DOC "Directory of nccl.h")
find_library(
  WARPWRIGHT_NCCL_LIBRARY
  NAMES nccl libnccl.so.2
  HINTS "${NCCL_ROOT}" "$ENV{NCCL_ROOT}" "${CUDAToolkit_LIBRARY_DIR}"
  PATH_SUFFIXES lib lib64
  DOC "NCCL's library")
mark_as_advanced(WARPWRIGHT_NCCL_INCLUDE_DIR WARPWRIGHT_NCCL_LIBRARY)
if(WARPWRIGHT_NCCL_INCLUDE_DIR AND WARPWRIGHT_NCCL_LIBRARY AND NOT TARGET warpwright::nccl)
  add_library(warpwright_nccl INTERFACE IMPORTED GLOBAL)
  add_library(warpwright::nccl ALIAS warpwright_nccl)
  target_include_directories(warpwright_nccl SYSTEM INTERFACE "${WARPWRIGHT_NCCL_INCLUDE_DIR}")
  target_link_libraries(warpwright_nccl INTERFACE warpwright::warpwright "${WARPWRIGHT_NCCL_LIBRARY}")
endif()
