// The frame and the style of the pages that glint writes: cards, tables, the charts of svg.h.
#pragma once

#include <string>
#include <string_view>

#include "base/str.h"

namespace glint {

// Colours: one blue for the data, everything else ink on paper. Both forms keep the text at a
// contrast of 4.5 : 1 and more.
inline constexpr std::string_view kPageStyle = R"css(
:root { color-scheme: light dark; --page: #f6f6f4; --card: #ffffff; --ink: #16181d; --muted: #5c626e;
  --grid: #e2e3e6; --series: #2a6bc4; }
@media (prefers-color-scheme: dark) {
  :root { --page: #14161a; --card: #1d2026; --ink: #eceef2; --muted: #a0a7b4; --grid: #343943;
    --series: #6ea8f0; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 860px; padding: 24px 16px 48px; background: var(--page);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 24px; line-height: 1.25; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 16px; margin: 0 0 2px; }
p { margin: 0 0 12px; color: var(--muted); overflow-wrap: anywhere; }
section { background: var(--card); border: 1px solid var(--grid); border-radius: 8px; margin: 16px 0;
  padding: 16px; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(128px, 1fr)); gap: 16px; }
.figures b { display: block; font-size: 22px; font-weight: 600; }
.figures span { color: var(--muted); font-size: 13px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--grid); padding: 6px 12px 6px 0; text-align: left;
  vertical-align: top; overflow-wrap: anywhere; }
th { color: var(--muted); font-weight: 400; }
tr:last-child > * { border-bottom: 0; }
summary { color: var(--muted); cursor: pointer; }
svg { display: block; height: auto; width: 100%; }
svg text { fill: var(--muted); font: 12px system-ui, sans-serif; }
@media (max-width: 600px) { svg { overflow: visible; } svg text { font-size: 20px; transform: translateY(3px); } }
.grid line { stroke: var(--grid); }
.bars rect { fill: var(--series); }
.bars rect:hover { fill: var(--ink); }
.line { fill: none; stroke: var(--series); stroke-linejoin: round; stroke-width: 2; }
.dots rect { fill: transparent; }
.dots circle { fill: var(--series); }
.dots g:hover circle { fill: var(--ink); }
)css";

// A page with its heading; `head` and `style` are in its head as well. It ends with kPageEnd.
inline std::string page_begin(const std::string& title, std::string_view style = {},
                              std::string_view head = {}) {
  return str(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
      head, "<title>", escape_html(title), "</title>\n<style>", kPageStyle, style,
      "</style>\n</head>\n<body>\n<h1>", escape_html(title), "</h1>\n");
}
inline constexpr std::string_view kPageEnd = "</body>\n</html>\n";

// One of .figures.
inline std::string figure(const std::string& value, const std::string& meaning) {
  return str("<div><b>", escape_html(value), "</b><span>", escape_html(meaning), "</span></div>\n");
}

// A card; `body` is HTML.
inline std::string page_section(std::string_view title, std::string_view meaning,
                                std::string_view body) {
  return str("<section>\n<h2>", escape_html(title), "</h2>\n<p>", escape_html(meaning), "</p>\n",
             body, "</section>\n");
}

}  // namespace glint
