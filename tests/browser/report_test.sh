#!/usr/bin/env bash
# Opens pages of --html in a headless browser, from a file and without a network: each must show its answer, and say nothing on the console.
# report_test.sh <sample_report>. Exit code 77: skipped.
set -euo pipefail

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [[ -z $browser ]]; then
  echo 'skipped: no chromium, chromium-browser or google-chrome in PATH'
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
flags=(--headless --disable-gpu --no-first-run --disable-dev-shm-usage --hide-scrollbars --enable-logging=stderr
       --user-data-dir="$folder/profile" --virtual-time-budget=5000)
if ((EUID == 0)); then flags+=(--no-sandbox); fi

open_page() {  # open_page <file> <browser flag>…: its document on standard output, what it logged in $folder/log
  local page=$1
  shift
  timeout 120 "$browser" "${flags[@]}" "$@" "file://$page" 2>"$folder/log"
}

echo '<!DOCTYPE html><title>empty</title>' >"$folder/empty.html"
if ! open_page "$folder/empty.html" --dump-dom >"$folder/dom" || ! grep -q '<title>empty</title>' "$folder/dom"; then
  tail -n 5 "$folder/log"
  echo "skipped: $browser does not start here"
  exit 77
fi

fail() { echo "FAILED: $*"; failed=yes; }
failed=no

value_of() {  # value_of <attribute>: the first on the page
  local all
  all=$(grep -o "data-$1=\"[^\"]*\"" "$folder/dom") && cut -d '"' -f 2 <<<"${all%%$'\n'*}"
}

# use_page <name> <width>: opens the page as somebody who does what standard input says in JavaScript, and leaves what was seen in data-seen.
# Frames come by the page's clock, which a loaded machine would let run ahead of the display: nothing would be drawn when it is looked at.
use_page() {
  { cat "$folder/$1.html"; cat <<'FRAMES'; echo '<script type="module">'; cat; cat <<'SCRIPT'
<script>
requestAnimationFrame = draw => setTimeout(() => draw(performance.now()), 16);
ResizeObserver = class { constructor(act) { this.act = act; } observe() { setTimeout(this.act, 16); } };
</script>
FRAMES
document.documentElement.dataset.wide = document.documentElement.scrollWidth > innerWidth;
if (document.title.startsWith("stolen")) document.documentElement.dataset.wide = "stolen";
</script>
SCRIPT
  } >"$folder/used.html"
  open_page "$folder/used.html" --dump-dom --window-size="$2",900 >"$folder/dom"
  # but for Chromium's advice on pixels that this test reads twice
  if grep 'CONSOLE' "$folder/log" | grep -v 'willReadFrequently'; then fail "$1: the console is not silent"; fi
  [[ $(value_of wide) == false ]] || fail "$1: wider than a window of $2, or a name was run as a script"
}

"$1" "$folder"

# Somebody who points at the first span, at a gap, zooms to the end of the step, and looks at the schedule and the memory.
for name in small hostile large; do
  for width in 1400 390; do
    use_page "$name" $width <<'SCRIPT'
const seen = [], later = () => new Promise(done => setTimeout(done, 300));
await later();
const canvasOf = id => document.getElementById(id)?.parentElement.querySelector("canvas");
const point = (id, share, y) => {
  const canvas = canvasOf(id);
  if (!canvas) return "no canvas";
  const place = canvas.getBoundingClientRect(), left = place.width < 560 ? 76 : 128;
  canvas.dispatchEvent(new PointerEvent("pointermove", {pointerId: 1, clientX: place.left + left + share * (place.width - left - 8), clientY: place.top + y}));
  const told = document.getElementById(id).parentElement.querySelector(".told").textContent.trim();
  return told || "nothing";
};
const isDrawn = id => {
  const canvas = canvasOf(id);
  return Boolean(canvas) && canvas.getContext("2d").getImageData(canvas.width >> 1, 0, 1, canvas.height).data.some(value => value > 0);
};
const charts = ["timeline", "schedule", "over-step"];
let drawn = charts.filter(isDrawn);
for (let i = 0; i < 3 && drawn.length === 0; ++i) {  // a loaded machine draws late
  await later();
  drawn = charts.filter(isDrawn);
}
document.documentElement.dataset.drawn = drawn.join(" ");
seen.push(point("timeline", 0.1, 30), point("timeline", 0.42, 30));
const moves = canvasOf("timeline").closest(".timeline");
for (let i = 0; i < 6; ++i) moves.dispatchEvent(new KeyboardEvent("keydown", {key: "+"}));
for (let i = 0; i < 999; ++i) moves.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight"}));
seen.push(point("timeline", 0.5, 30), point("schedule", 0.5, 10), point("over-step", 0.5, 100));
document.documentElement.dataset.seen = seen.join("; ").replaceAll('"', "'");
SCRIPT
    [[ $(value_of ready) == simulate ]] || fail "$name: no answer is shown"
    if [[ $name != large ]]; then
      [[ $(value_of drawn) == 'timeline schedule over-step' ]] || fail "$name: drawn are $(value_of drawn)"
    fi
    if [[ $name == small ]]; then
      seen=$(value_of seen)
      [[ $seen == 'GPU 0 (stage 0), compute: forward layer 0, '*'; nothing; GPU 0 (stage 0), compute: backward layer 0, '*'Stage 0: backward of micro-batch 0, '*'weights '* ]] ||
        fail "small: seen was $seen"
    fi
  done
  echo "$name: $(stat -c %s "$folder/$name.html") bytes"
done
grep -q '200,000 spans are drawn as' "$folder/large.html" || fail 'large: nobody says that spans are merged'
(($(stat -c %s "$folder/large.html") < 2000000)) || fail 'large: more than 2 MB'

# Somebody who walks to a plan with the keyboard and points at another one.
for name in plan hostile_plan; do
  for width in 1400 390; do
    use_page "$name" $width <<'SCRIPT'
const points = [...document.querySelectorAll("circle.plan")], told = () => document.querySelector(".chosen pre").textContent;
const first = told();
points[1].dispatchEvent(new FocusEvent("focus"));
const second = told();
points[2].dispatchEvent(new PointerEvent("mouseenter"));
document.documentElement.dataset.seen = [points.length, first === second, told() === second].join(" ");
SCRIPT
    [[ $(value_of ready) == plan ]] || fail "$name: no answer is shown"
    [[ $(value_of seen) == '3 false false' || $(value_of seen) == '3 true true' ]] || fail "$name: walked $(value_of seen)"
  done
done

use_page estimate 390 <<'SCRIPT'
const verdict = () => document.getElementById("verdict").textContent, before = verdict();
document.querySelectorAll(".cards button")[1].click();
document.documentElement.dataset.seen = [before !== verdict(), document.querySelectorAll("button").length > 2].join(" ");
SCRIPT
[[ $(value_of ready) == estimate && $(value_of seen) == 'true true' ]] || fail "estimate: another strategy is not shown: $(value_of seen)"

# Three seconds in which an engine writes, one of training: their places and what the GPU holds, in per cent of the lanes.
for width in 1400 390; do
  use_page phases $width <<'SCRIPT'
const share = (box, lane, from, size) => Math.round(100 * (box[from] - lane[from]) / lane[size]) + "+" + Math.round(100 * box[size] / lane[size]);
const lanes = [...document.querySelectorAll(".phase-lane")].map(lane => {
  const whole = lane.children[1].getBoundingClientRect();
  return lane.children[0].textContent + " " + [...lane.children[1].children].map(one => share(one.getBoundingClientRect(), whole, "left", "width")).join(" ");
});
const heights = [...document.querySelectorAll(".phase-lane.memory .part3")].map(bar => bar.getBoundingClientRect().height);
document.documentElement.dataset.seen = [...lanes, (heights[0] / heights[1]).toFixed(2), document.getElementById("timeline").textContent].join("; ");
SCRIPT
  [[ $(value_of ready) == simulate && $(value_of seen) == 'training 75+25; engine 0+75; memory 0+75 75+25 0+100; 0.6'[23]'; Timeline of the pass with gradients' ]] || fail "phases: seen was $(value_of seen)"
done

# A measured step: what explains it, and its parts beside the predicted ones.
for width in 1400 390; do
  use_page diagnosis $width <<'SCRIPT'
const tables = [...document.querySelectorAll("table")], titles = tables.map(table => table.querySelector("th").textContent);
document.documentElement.dataset.seen = [document.getElementById("verdict").textContent.includes("2.00 times the predicted time"),
  ...titles, tables.every(table => table.querySelectorAll("tbody tr").length > 1), document.querySelector("li b") === null].join("; ");
SCRIPT
  [[ $(value_of ready) == diagnose && $(value_of seen) == 'true; what it may be; '*'; true; true' ]] || fail "diagnosis: seen was $(value_of seen)"
done

for name in small plan estimate diagnosis; do
  open_page "$folder/$name.html" --screenshot="$folder/$name.png" --window-size=400,900 >/dev/null || fail "$name: no screenshot"
  (($(stat -c %s "$folder/$name.png") > 10000)) || fail "$name: the screenshot is empty"
done
[[ $failed == no ]]
