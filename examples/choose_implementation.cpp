// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Three implementations of a transpose, and for each shape the one that is the fastest on this
// device. With an argument, keeps the choices in that file, and measures nothing the second time.
#include <warpwright/core/device.hpp>
#include <warpwright/core/launch.hpp>
#include <warpwright/kernel/views.hpp>
#include <warpwright/memory.hpp>
#include <warpwright/tune/chooser.hpp>

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <vector>

namespace ww = warpwright;
namespace ew = warpwright::ew;

// A thread for each element of the result: reads with a stride.
struct gather {
  float const* in;
  float* out;
  std::uint64_t rows, cols;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    out[i] = in[i % rows * cols + i / rows];
  }
};

// A thread for each element of the input: writes with a stride.
struct scatter {
  float const* in;
  float* out;
  std::uint64_t rows, cols;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    out[i % cols * rows + i / cols] = in[i];
  }
};

class transposer {
 public:
  explicit transposer(ww::chooser& pick) : pick_{pick} {}

  // Transposes by the implementation that is the fastest for the shape; the first call finds out.
  ww::choice const& operator()(ww::stream_ref stream, float const* in, float* out, std::size_t rows,
                               std::size_t cols) {
    std::uint64_t const n = rows * cols;
    auto const tiles = [&](ww::stream_ref s) {  // through shared memory
      auto const signed_rows = static_cast<std::int64_t>(rows);
      auto const signed_cols = static_cast<std::int64_t>(cols);
      ew::run(s, ew::out(out, n) =
                     ew::view(ew::array(in, {signed_rows, signed_cols}).permuted({1, 0})));
    };
    // A block in docs/measure.md is a copy of the lines from here on.
    auto const gathers = [&](ww::stream_ref s) {
      ww::for_each_index(s, n, gather{in, out, rows, cols});
    };
    auto const scatters = [&](ww::stream_ref s) {
      ww::for_each_index(s, n, scatter{in, out, rows, cols});
    };
    auto const is_right = [&](ww::stream_ref s) { return check(s, in, out, rows, cols); };
    auto const reset = [&](ww::stream_ref s) {
      ww::check(cudaMemsetAsync(out, 0xff, n * sizeof(float), s), "cudaMemsetAsync");
    };
    return pick_(stream, {rows, cols},
                 ww::candidates(ww::candidate("tiles", tiles), ww::candidate("gather", gathers),
                                ww::candidate("scatter", scatters))
                     .verify(is_right, reset));
  }

  static bool check(ww::stream_ref stream, float const* in, float const* out, std::size_t rows,
                    std::size_t cols) {
    std::vector<float> before(rows * cols);
    std::vector<float> after(rows * cols);
    std::size_t const bytes = before.size() * sizeof(float);
    ww::check(cudaMemcpyAsync(before.data(), in, bytes, cudaMemcpyDefault, stream), "copy");
    ww::check(cudaMemcpyAsync(after.data(), out, bytes, cudaMemcpyDefault, stream), "copy");
    stream.synchronize();
    bool right = true;
    for (std::size_t i = 0; i < before.size(); ++i) {
      right = right && !(after[i % cols * rows + i / cols] < before[i]) &&
              !(after[i % cols * rows + i / cols] > before[i]);
    }
    return right;
  }

 private:
  ww::chooser& pick_;
};

int main(int argc, char** argv) try {
  std::printf("on %s\n", ww::get_device_info(ww::current_device()).name.c_str());
  ww::memory_pool pool{ww::current_device()};
  ww::stream const stream;
  ww::chooser pick = argc > 1 ? ww::chooser{"transpose-v1", ww::tuning_store{argv[1]}}
                              : ww::chooser{"transpose-v1"};
  transposer transpose{pick};
  struct shape {
    std::size_t rows, cols;
  };
  for (shape const& s : {shape{256, 256}, shape{4, 16384}, shape{16384, 4}}) {
    std::size_t const n = s.rows * s.cols;
    ww::device_buffer<float> in{pool, stream, n};
    ww::device_buffer<float> out{pool, stream, n};
    ew::run(stream, ew::out(in.data(), n) = ew::cast<float>(ew::index()));
    ww::choice const& made = transpose(stream, in.data(), out.data(), s.rows, s.cols);
    std::printf("%zux%zu\n%s\n", s.rows, s.cols, ww::to_text(made).c_str());

    // The second call only looks the choice up.
    ww::check(cudaMemsetAsync(out.data(), 0xff, n * sizeof(float), stream), "cudaMemsetAsync");
    ww::choice const& again = transpose(stream, in.data(), out.data(), s.rows, s.cols);
    if (&again != &made || !transposer::check(stream, in.data(), out.data(), s.rows, s.cols)) {
      throw std::runtime_error{"wrong answer"};
    }
    for (ww::candidate_figures const& c : made.candidates) {
      if (c.state == ww::candidate_state::wrong) throw std::runtime_error{c.name + " is wrong"};
    }
  }
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
