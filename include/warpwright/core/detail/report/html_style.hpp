// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The style sheet of HTML reports.
#pragma once

#include <warpwright/core/detail/report/plot.hpp>

#include <cstring>

WARPWRIGHT_BEGIN

namespace detail {

struct html_color {
  char const* name;
  char const* light;  // as the charts have it
  char const* dark;
};

constexpr html_color html_colors[] = {
    {"blue", plot_style::blue, "#58a6ff"},
    {"orange", plot_style::orange, "#f0a35e"},
    {"green", plot_style::green, "#56d364"},
    {"red", plot_style::red, "#ff7b72"},
    {"foreground", plot_style::foreground, "#e6edf3"},
    {"muted", plot_style::muted, "#9aa4af"},
    {"grid", plot_style::grid, "#30363d"},
    {"background", plot_style::background, "#0d1117"},
};

// The name of a chart's color.
WARPWRIGHT_COLD inline char const* html_color_name(char const* light) {
  for (html_color const& c : html_colors) {
    if (std::strcmp(c.light, light) == 0) return c.name;
  }
  return "foreground";
}

// The charts have their colors as attributes, so that they can be drawn without a style sheet; in
// dark mode a rule for each replaces it.
WARPWRIGHT_COLD inline string_builder html_style_sheet() {
  string_builder light;
  string_builder dark;
  string_builder charts;
  string_builder classes;
  for (html_color const& c : html_colors) {
    string_builder const name = c.name;
    light += "--" + name + ":" + c.light + ";";
    dark += "--" + name + ":" + c.dark + ";";
    charts += string_builder{"svg [fill=\""} + c.light + "\"]{fill:" + c.dark + "}svg [stroke=\"" +
              c.light + "\"]{stroke:" + c.dark + "}";
    classes += "." + name + "{color:var(--" + name + ")}";
  }
  return ":root{color-scheme:light dark;" + light +
         "}\n@media screen and (prefers-color-scheme:dark){:root{" + dark + "}" + charts + "}\n" +
         classes +
         "\n*{box-sizing:border-box}"
         "body{margin:0;background:var(--background);color:var(--foreground);"
         "font:16px/1.5 system-ui,'Segoe UI','DejaVu Sans',sans-serif}"
         "main{max-width:66rem;margin:0 auto;padding:1rem}"
         "h1{font-size:1.5rem;line-height:1.25;margin:.5rem 0}h2{font-size:1.1rem;margin:0 0 .5rem}"
         "h1,p,li,td,dd{overflow-wrap:anywhere}"
         "section{margin:1.5rem 0}p{margin:.4rem 0}"
         ".verdict{border-left:.3rem solid var(--green);padding:.4rem .8rem;font-size:1.1rem}"
         ".verdict.none{border-color:var(--red)}"
         ".warning{border-left:.3rem solid var(--orange);padding:.1rem .8rem}"
         ".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));"
         "gap:1.5rem}"
         ".charts section{margin:0}figure{margin:0}svg{display:block;width:100%;height:auto}"
         "figcaption{color:var(--muted);font-size:.85rem}"
         ".key{white-space:nowrap;margin-right:1rem}"
         ".wide{overflow-x:auto}"
         "table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}"
         "th,td{padding:.25rem .6rem;text-align:right;border-bottom:1px solid var(--grid);"
         "vertical-align:top}"
         ".sizes td,.sizes th{white-space:nowrap}"
         "th{color:var(--muted);font-weight:600}"
         "td.text,th.text{text-align:left}.sizes td.note{white-space:normal;min-width:14rem}"
         "tr.chosen td{font-weight:700;border-bottom-color:var(--green)}"
         ".bar{width:40%;min-width:6rem}.bar div{height:.8rem;margin:.35rem 0;"
         "background:var(--blue)}"
         "dl{margin:0;font-size:.9rem}dt{font-weight:600;float:left;clear:left;margin-right:.5rem}"
         "dd{margin:0 0 .2rem}"
         "@media print{body{font-size:10pt}main{max-width:none;padding:0}.wide{overflow:visible}"
         "figure,tr,li{break-inside:avoid}.charts{grid-template-columns:1fr 1fr}"
         "table{font-size:7.5pt}th,td{padding:.1rem .25rem}"
         ".bar div{print-color-adjust:exact;-webkit-print-color-adjust:exact}}\n";
}

}  // namespace detail

WARPWRIGHT_END
