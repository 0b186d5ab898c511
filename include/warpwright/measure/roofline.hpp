// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What a device reaches, and how near to it a kernel comes.
//
//   ww::device_ceilings const c = ww::measure_ceilings(stream);  // measure/ceilings.hpp
//   ww::roofline_point const p = ww::roofline(c, ww::cost{2.0 * n, 12.0 * n}, seconds);
//   std::puts(ww::explain(p).c_str());  // "memory: 91 % of 2.98 TB/s …"
//
// **Threads:** values. **Capture:** legal; nothing here makes a CUDA call.
#pragma once

#include <warpwright/core/device.hpp>
#include <warpwright/core/gpu_model.hpp>

#include <cstddef>
#include <string>
#include <vector>

WARPWRIGHT_BEGIN

/// What measure_ceilings() measures.
enum class limit {
  copy,            ///< B/s, read and written: cudaMemcpyAsync within device memory
  read,            ///< B/s: a kernel that only reads
  write,           ///< B/s: a kernel that only writes
  l2_read,         ///< B/s: a kernel that reads a quarter of the L2 cache again and again
  fp32,            ///< flop/s: fused multiply-adds in registers, each of them two operations
  fp64,            ///< as fp32
  fp16,            ///< as fp32, of pairs
  bf16,            ///< as fp16, from compute capability 8.0
  tensor,          ///< flop/s: cuBLAS, a product of matrices of bfloat16 (below 8.0 float16)
  up,              ///< B/s: cudaMemcpyAsync from page-locked memory to the device
  down,            ///< B/s: and back
  launch,          ///< s: from one empty kernel to the next in a busy stream
  graph_launch,    ///< s: from one launch of a graph of one empty kernel to the next
  memory_latency,  ///< s: of one load from device memory, behind the load of its address
};
inline constexpr std::size_t limit_count = 14;

/// @return "copy", "fp32" …
[[nodiscard]] char const* to_string(limit which) noexcept;

/// A measured value; 0: it was not measured, as the device or cuBLAS is missing what it needs.
struct ceiling {
  double value = 0.0;  ///< per second, or seconds: the median
  double low = 0.0;    ///< the interval of 95 % confidence of the median
  double high = 0.0;
  bool converged = false;  ///< whether that can be believed: there was no drift
};

/// The ceilings of one device, with its identity.
struct device_ceilings {
  struct peer {
    int from = 0;  ///< device
    int to = 0;
    ceiling bytes_per_second;  ///< cudaMemcpyPeerAsync
    bool direct = false;       ///< by peer access; otherwise through the host
  };

  device_info device;    ///< which it is
  gpu_model gpu;         ///< with copy_bytes_per_second and launch_seconds, for ew::plan()
  std::string date;      ///< of the measurement, UTC: "2026-11-27T20:44:07Z"
  double seconds = 0.0;  ///< that it took
  ceiling all[limit_count];
  std::vector<peer> peers;  ///< from this device to the others

  [[nodiscard]] ceiling const& operator[](limit which) const noexcept {
    return all[static_cast<std::size_t>(which)];
  }
  [[nodiscard]] ceiling& operator[](limit which) noexcept {
    return all[static_cast<std::size_t>(which)];
  }
};

/// @return a table of them, a line each, with how each was measured
[[nodiscard]] std::string to_text(device_ceilings const& c);
/// @return one JSON object (RFC 8259)
[[nodiscard]] std::string to_json(device_ceilings const& c);

/// What a kernel must do, however it does that.
struct cost {
  double flops = 0.0;  ///< operations, a fused multiply-add counting two
  /// Bytes of all arrays, those that are read and those that are written, each once.
  double bytes = 0.0;
  limit math = limit::fp32;    ///< which of the arithmetic ceilings counts
  limit memory = limit::copy;  ///< and which of the memory: read or write for those alone, l2_read
                               ///< where all is in that cache
};

/// How near a kernel comes to the ceilings.
struct roofline_point {
  cost what;
  double seconds = 0.0;  ///< as measured
  /// What binds: the ceiling whose part takes longest; launch for less than a launch.
  limit binds = limit::copy;
  double least_seconds = 0.0;     ///< at the ceiling that binds
  double best_seconds = 0.0;      ///< at the better end of that ceiling's interval
  double fraction = 0.0;          ///< least_seconds / seconds: of what is possible
  double intensity = 0.0;         ///< flop/B; infinity for no bytes
  double ridge = 0.0;             ///< the intensity from which on arithmetic binds; 0: not known
  double flops_per_second = 0.0;  ///< reached
  double bytes_per_second = 0.0;  ///< reached
  double ceiling_value = 0.0;     ///< of what binds
  /// Bytes that must be in flight for the memory's ceiling, by Little's law; 0: not measured, as
  /// for l2_read, of which memory_latency is not the latency.
  double bytes_in_flight = 0.0;
};

/// Places a kernel under the roofs: its least time is the longest of bytes / bandwidth, flops /
/// arithmetic and a launch.
/// @param seconds  that it takes, as measured: with the stream synchronised or between events
/// @throws std::invalid_argument  for negative or infinite numbers, a time of 0, a limit that is no
///   arithmetic or memory, and a ceiling that counts and was not measured
/// Source: Williams, Waterman and Patterson, "Roofline", CACM 52 (2009). Example: y = a x + y of
/// 2^28 floats does 2 flop and moves 12 B an element: 3.2 GB at 2.98 TB/s are 1.08 ms, 0.5 Gflop at
/// 60 Tflop/s 9 us, so that memory binds.
[[nodiscard]] roofline_point roofline(device_ceilings const& c, cost const& what, double seconds,
                                      source_location where = source_location::current());
/// @return one line without a newline: what binds, how near, and what that means
[[nodiscard]] std::string explain(roofline_point const& p);

/// A point of the chart.
struct named_point {
  std::string name;
  roofline_point point;
};
/// Draws the roofs of memory and arithmetic, and the points under them, as SVG.
/// @param points  under the roofs of fp32, tensor and copy; those without bytes stand at the right
///   edge, those without operations nowhere
/// @return the text; the caller writes the file. It refers to no other
[[nodiscard]] std::string to_svg(device_ceilings const& c, std::vector<named_point> const& points,
                                 std::string const& title = "Roofline");

/// Amdahl's law: how many times as fast a program gets when a part of it does.
/// @param part     seconds of the part, as median_seconds of a sample_summary
/// @param all      seconds of the program, the part included
/// @param speedup  of the part, at most 1 / roofline_point::fraction; infinity: it is gone
/// @return all / (all - part + part / speedup)
/// @throws std::invalid_argument  for a part that is not in [0, all], or a speedup that is not
///   above 0
/// Source: Amdahl, AFIPS 1967. Example: of 10 ms a kernel takes 4; twice as fast gives 1.25.
[[nodiscard]] double amdahl(double part, double all, double speedup,
                            source_location where = source_location::current());
/// Little's law: how much must be under way for a throughput, at a latency.
/// @return throughput * latency: bytes, for bytes a second and seconds
/// Source: Little, Operations Research 9 (1961). Example: 3.0 TB/s at 700 ns are 2.1 MB, 16 KB for
/// each of 132 multiprocessors: 2,048 threads with 8 B each, or 512 with 32.
[[nodiscard]] constexpr double littles_law(double per_second, double latency_seconds) noexcept {
  return per_second * latency_seconds;
}

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/measure/detail/roofline_definitions.hpp>
#endif
