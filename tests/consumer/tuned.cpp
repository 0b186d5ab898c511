// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Calls from a plain C++ file what is in warpwright::compiled: it must link.
#include <warpwright/tune/batch_tuner.hpp>
#include <warpwright/tune/report.hpp>

#include <string>

namespace ww = warpwright;

#if !WARPWRIGHT_COMPILED
#error "warpwright::compiled does not say so"
#endif

std::string tune(ww::stream_ref stream) {
  auto const nothing = [](std::size_t, ww::stream_ref) {};
  auto const best =
      ww::batch_tuner{}.range(1, 64).progress(ww::progress_line{}).tune(stream, nothing);
  return ww::to_text(best) + ww::to_csv(best) + ww::to_json(best) + ww::to_svg(best) +
         ww::to_html(best);
}
