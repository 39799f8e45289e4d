#include "report/html/page_parts.h"

namespace gpuplan {

std::string_view page_style() {
  return R"css(
:root {
  color-scheme: light dark;
  --back: #ffffff; --panel: #f5f6f8; --line: #d9dde3; --text: #1b2330; --soft: #5b6675;
  --accent: #2f6fdb; --good: #1f7a3d; --bad: #b3261e; --warn-back: #fdecea;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #14181f; --panel: #1d232c; --line: #343c48; --text: #e6e9ee; --soft: #9aa5b4;
    --accent: #6ea0ff; --good: #6fcf8b; --bad: #ff8a80; --warn-back: #3a2020;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 1180px; padding: 28px 24px 48px; background: var(--back); color: var(--text);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
h1 { font-size: 24px; line-height: 1.25; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 17px; margin: 0 0 12px; }
p { margin: 0 0 10px; }
section { margin-top: 34px; }
.soft, figcaption { color: var(--soft); font-size: 13px; }
.warning { background: var(--warn-back); border-left: 4px solid var(--bad); padding: 10px 14px; margin: 16px 0 0; }
.tiles { display: grid; grid-template-columns: repeat(4, 1fr); gap: 10px; margin-top: 20px; }
.tile { background: var(--panel); border: 1px solid var(--line); border-radius: 8px; padding: 10px 14px; }
.tile b { display: block; font-size: 21px; line-height: 1.3; font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: 13px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 18px; margin: 0; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
ul, ol { margin: 0; padding-left: 20px; }
li { margin-bottom: 4px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; color: var(--soft); font-weight: 500; font-size: 13px; white-space: nowrap; }
th, td { padding: 5px 14px 5px 0; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:last-child, td:last-child { padding-right: 0; }
td.wide { width: 40%; min-width: 170px; }
td.text { white-space: normal; min-width: 180px; }
.number { text-align: right; }
.good { color: var(--good); } .bad { color: var(--bad); }
tr.chosen td:first-child { font-weight: 600; }
.bar { display: flex; align-items: center; gap: 10px; }
.bar .track { flex: 1; height: 12px; background: var(--panel); border-radius: 3px; overflow: hidden; min-width: 60px; }
.bar .fill { display: block; height: 100%; background: var(--accent); border-radius: 3px; }
.bar.no .fill { background: var(--soft); }
.bar .value { min-width: 62px; text-align: right; }
.controls { display: flex; flex-wrap: wrap; gap: 6px 8px; align-items: center; margin-bottom: 8px; font-size: 13px; }
.controls button {
  font: inherit; color: inherit; background: var(--panel); border: 1px solid var(--line); border-radius: 6px;
  padding: 3px 10px; cursor: pointer;
}
.controls button:hover { border-color: var(--accent); }
.controls label { margin-left: 6px; }
.chart { position: relative; border: 1px solid var(--line); border-radius: 8px; overflow: hidden; background: var(--back); }
canvas { display: block; width: 100%; touch-action: pan-y; cursor: grab; }
canvas:focus-visible { outline: 2px solid var(--accent); outline-offset: -2px; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 16px; margin: 8px 0; font-size: 13px; }
.legend i { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin-right: 6px; vertical-align: -1px; }
#tip {
  position: fixed; z-index: 2; pointer-events: none; display: none; max-width: min(340px, 90vw); padding: 8px 11px;
  background: var(--text); color: var(--back); border-radius: 6px; font-size: 13px; line-height: 1.4; white-space: pre-line;
}
figure { margin: 0; }
figure svg { max-width: 100%; min-width: 520px; height: auto; border-radius: 8px; margin-bottom: 10px; }
code { font: 13px/1.5 ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 8px; padding: 10px 14px; margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; }
footer { margin-top: 40px; padding-top: 12px; border-top: 1px solid var(--line); color: var(--soft); font-size: 13px; }
@media (max-width: 600px) {
  body { padding: 18px 14px 36px; }
  h1 { font-size: 20px; }
  dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: 8px; }
  .tiles { grid-template-columns: 1fr 1fr; }
  td.wide { min-width: 130px; }
  td.text { min-width: 150px; }
  .bar .value { min-width: 46px; }
  th, td { padding-right: 10px; }
  .tile b { font-size: 18px; }
}
@media print {
  :root {
    color-scheme: light;
    --back: #ffffff; --panel: #f5f6f8; --line: #d9dde3; --text: #1b2330; --soft: #5b6675;
    --accent: #2f6fdb; --good: #1f7a3d; --bad: #b3261e; --warn-back: #fdecea;
  }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  body { max-width: none; padding: 0; font-size: 12px; }
  .controls, #tip, .screen { display: none !important; }
  section { break-inside: avoid; margin-top: 20px; }
}
)css";
}

}  // namespace gpuplan
