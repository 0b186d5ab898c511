// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Poisson's equation on the unit square, -(u_xx + u_yy) = f with u = 0 at the edge, by the method
// of conjugate gradients: four short kernels an iteration, whose launches take longer than their
// work. Before: each is launched. After: a graph_cache replays 20 iterations with one call. The
// known solution tells whether the result is right, and both must give the same bits.
#include <warpwright/graph.hpp>
#include <warpwright/graph/graph_cache.hpp>
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/reduce.hpp>
#include <warpwright/memory.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <utility>

namespace ew = warpwright::ew;
namespace ww = warpwright;

namespace {

constexpr double pi = 3.14159265358979323846;
constexpr int iterations_a_step = 20;

// The five-point stencil at inner point i of a grid of side x side of them; 0 beyond the edge.
struct laplacian {
  double const* p;
  std::uint64_t side;
  WARPWRIGHT_HOST_DEVICE double operator()(std::uint64_t i) const {
    std::uint64_t const column = i % side;
    double const left = column > 0 ? p[i - 1] : 0.0;
    double const right = column + 1 < side ? p[i + 1] : 0.0;
    double const above = i >= side ? p[i - side] : 0.0;
    double const below = i + side < side * side ? p[i + side] : 0.0;
    double const cells = static_cast<double>(side + 1);
    return (4.0 * p[i] - left - right - above - below) * cells * cells;
  }
};

// Everything that an iteration uses: the bindings that the cache compares at each step.
struct unknowns {
  double* x;     // the solution
  double* r;     // the residual
  double* p;     // the direction
  double* dots;  // r.r, its next value, and p.Ap
  ew::reduction_workspace work;
  std::uint64_t side;
};

void iterate(ww::stream_ref stream, unknowns const& of) {
  std::uint64_t const n = of.side * of.side;
  auto const x = ew::in(of.x, n);
  auto const r = ew::in(of.r, n);
  auto const p = ew::in(of.p, n);
  auto const ap = ew::map(laplacian{of.p, of.side}, ew::index());
  double* rr = of.dots;
  double* next = of.dots + 1;
  double* const pap = of.dots + 2;
  for (int i = 0; i < iterations_a_step; ++i) {
    auto const alpha = ew::device_scalar(rr) / ew::device_scalar(pap);
    auto const beta = ew::device_scalar(next) / ew::device_scalar(rr);
    ew::reduce(stream, of.work, n, ew::to(pap) = ew::sum(p * ap));
    ew::run(stream, ew::tie(ew::out(of.x, n) = x + alpha * p, ew::out(of.r, n) = r - alpha * ap));
    ew::reduce(stream, of.work, n, ew::to(next) = ew::sum(r * r));
    ew::run(stream, ew::out(of.p, n) = r + beta * p);
    std::swap(rr, next);  // back in place at the end, as the number of iterations is even
  }
}

struct solved {
  int iterations = 0;
  double error = 0.0;  // largest difference from the known solution
  double milliseconds = 0.0;
};

// u = exp(x + y) sin(pi x) sin(pi y). `step` runs iterate(), in whatever way.
template <class Step>
solved solve(ww::stream_ref stream, ww::memory_pool& pool, unknowns const& of, Step step) {
  std::uint64_t const n = of.side * of.side;
  auto const cells = static_cast<double>(of.side + 1);
  auto const x = (ew::cast<double>(ew::index() % of.side) + 1.0) / cells;
  auto const y = (ew::cast<double>(ew::index() / of.side) + 1.0) / cells;
  auto const bubble = ew::exp(x + y) * ew::sin(pi * x) * ew::sin(pi * y);
  auto const f = 2.0 * (pi * pi - 1.0) * bubble - 2.0 * pi * ew::exp(x + y) * ew::sin(pi * (x + y));
  ew::run(stream, ew::tie(ew::out(of.x, n) = 0.0, ew::out(of.r, n) = f, ew::out(of.p, n) = f));
  ew::reduce(stream, of.work, n, ew::to(of.dots) = ew::sum(ew::in(of.r, n) * ew::in(of.r, n)));

  solved result;
  double rr = 0.0;
  auto const read = [&] {
    ww::check(cudaMemcpyAsync(&rr, of.dots, sizeof rr, cudaMemcpyDeviceToHost, stream.get()),
              "cudaMemcpyAsync");
    stream.synchronize();
    return rr;
  };
  double const enough = 1e-16 * read();
  auto const begin = std::chrono::steady_clock::now();
  do {
    step();
    result.iterations += iterations_a_step;
  } while (read() > enough && result.iterations < 2000);
  std::chrono::duration<double, std::milli> const time = std::chrono::steady_clock::now() - begin;
  result.milliseconds = time.count();
  ew::run(stream, ew::out(of.p, n) = bubble);
  result.error = ew::reduce(stream, pool, n, ew::max(ew::abs(ew::in(of.x, n) - ew::in(of.p, n))));
  return result;
}

int run() {
  ww::stream stream;
  ww::memory_pool pool{ww::current_device()};
  ww::graph_cache cache;
  bool right = true;
  double coarser = 0.0;
  for (std::uint64_t const side : {std::uint64_t{31}, std::uint64_t{63}, std::uint64_t{127}}) {
    std::size_t const n = side * side;
    ww::device_buffer<double> x{pool, stream, n};
    ww::device_buffer<double> r{pool, stream, n};
    ww::device_buffer<double> p{pool, stream, n};
    ww::device_buffer<double> dots{pool, stream, 3};
    ww::device_buffer<std::byte> memory{pool, stream, 32 << 10U};
    auto const work = ew::prepare_workspace(stream, memory.data(), memory.size());
    unknowns const of{x.data(), r.data(), p.data(), dots.data(), work, side};

    auto const launch_each = [&] { iterate(stream, of); };
    auto const replay = [&] { cache.run(stream, {side}, iterate, of); };
    solve(stream, pool, of, launch_each);  // loads the kernels
    solved const before = solve(stream, pool, of, launch_each);
    solve(stream, pool, of, replay);  // captures
    solved const after = solve(stream, pool, of, replay);

    std::printf(
        "%3zu x %-3zu  %4d iterations, error %.2e: %8.3f ms before, %8.3f ms after, %.2f x\n",
        static_cast<std::size_t>(side), static_cast<std::size_t>(side), after.iterations,
        after.error, before.milliseconds, after.milliseconds,
        before.milliseconds / after.milliseconds);
    right = right && after.iterations == before.iterations && after.error == before.error;
    // The stencil's error is of second order: half the distance, a quarter of the error.
    double const ratio = coarser / after.error;
    right = right && after.error < 1e-2 && (coarser == 0.0 || std::abs(ratio - 4.0) < 0.1);
    coarser = after.error;
  }
  std::printf("\n%s", cache.statistics().to_text().c_str());
  return right ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
