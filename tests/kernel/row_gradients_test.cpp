#include <warpwright/kernel.hpp>
#include <warpwright/kernel/row_gradients.hpp>
#include <warpwright/memory.hpp>
#include "kernel/support.hpp"
#include "support/catch.hpp"
namespace ew = warpwright::ew;
namespace ww = warpwright;
using kernel_test::guarded;
TEST_CASE("first") {
  ww::stream s;
  std::size_t const rows = 5, cols = 12, n = rows * cols;
  guarded<float> dy{std::vector<float>(n, 1.0F)}, x{std::vector<float>(n, 2.0F)}, mean{std::vector<float>(rows, 1.0F)}, rstd{std::vector<float>(rows, 1.0F)}, gamma{std::vector<float>(cols, 2.0F)};
  guarded<float> dx{std::vector<float>(n, 1.0F)}, dg{std::vector<float>(cols, 0.0F)}, db{std::vector<float>(cols, 0.0F)}, amax{1};
  auto const g = ew::layer_norm_backward(ew::in(dy.data(), n), ew::in(x.data(), n), ew::col(mean.data(), cols), ew::col(rstd.data(), cols), ew::row(gamma.data(), cols));
  ew::run_row_gradients_host({rows, cols}, ew::out(dx.data(), n) += g.dx(), ew::to(dg.data()) += g.dgamma(), ew::to(db.data()) += g.dbeta(), ew::to(amax.data()) = ew::max(g.dx()));
  CHECK(db[0] == 5); CHECK(dg[3] == 5);
}
