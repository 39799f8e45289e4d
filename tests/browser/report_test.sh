#!/usr/bin/env bash
# Opens reports in a headless browser: the script must run to its end, draw, and say nothing on the console.
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

check_page() {  # check_page <name> <spans on the page> <fewest rectangles>
  local name=$1
  open_page "$folder/$name.html" --dump-dom --window-size=1280,900 >"$folder/dom"
  if grep 'CONSOLE' "$folder/log"; then fail "$name: the console is not silent"; fi
  [[ $(value_of ready) == true ]] || fail "$name: the script did not reach its end"
  [[ $(value_of spans) == "$2" ]] || fail "$name: $(value_of spans) spans on the page, expected $2"
  (($(value_of drawn || echo 0) >= $3)) || fail "$name: $(value_of drawn) rectangles drawn, expected at least $3"
  echo "$name: $(value_of spans) spans, $(value_of drawn) drawn, $(stat -c %s "$folder/$name.html") bytes"
}

"$1" "$folder"
check_page small 11 11
check_page hostile 11 11
if grep -q '<title>stolen' "$folder/dom"; then fail 'hostile: a name was run as a script'; fi
large=$(grep -o '200,000 spans are drawn as [0-9,]*' "$folder/large.html" | grep -o '[0-9,]*$' | tr -d ,)
check_page large "$large" 500
(($(stat -c %s "$folder/large.html") < 2000000)) || fail 'large: more than 2 MB'

# A user who points at the first span, zooms to it, follows the critical path, and prints; what happened is left in the title.
{ cat "$folder/small.html"; cat <<'SCRIPT'
<script>
const canvas = document.querySelector("#timeline canvas"), place = canvas.getBoundingClientRect(), seen = [];
const point = x => {
  canvas.dispatchEvent(new PointerEvent("pointermove", {pointerId: 1, clientX: place.left + x, clientY: place.top + 36}));
  const tip = document.getElementById("tip");
  seen.push(tip.style.display === "block" ? tip.textContent.split("\n")[0] : "nothing");
};
point(150);                                           // the first 20 of 100 ms
point(600);                                           // GPU 0 waits
for (let i = 0; i < 6; ++i) canvas.dispatchEvent(new KeyboardEvent("keydown", {key: "+"}));
for (let i = 0; i < 99; ++i) canvas.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight"}));
point(600);                                           // the end of the step, enlarged
document.getElementById("zoom-all").click();
document.getElementById("show-critical").click();
canvas.dispatchEvent(new WheelEvent("wheel", {ctrlKey: true, deltaY: -100, clientX: place.left + 300, cancelable: true}));
dispatchEvent(new Event("beforeprint"));
dispatchEvent(new Event("afterprint"));
document.title = seen.join("; ");
</script>
SCRIPT
} >"$folder/used.html"
open_page "$folder/used.html" --dump-dom --window-size=1280,900 >"$folder/dom"
if grep 'CONSOLE' "$folder/log"; then fail 'used: the console is not silent'; fi
title=$(grep -o '<title>[^<]*' "$folder/dom")
title=${title%%$'\n'*}
[[ $title == '<title>forward layer 0; nothing; backward layer 0' ]] || fail "used: pointed at $title"

open_page "$folder/small.html" --screenshot="$folder/small.png" --window-size=400,900 >/dev/null || fail 'no screenshot'
(($(stat -c %s "$folder/small.png") > 10000)) || fail 'the screenshot is empty'

# The page of plans: a user walks through the points with the keyboard, points at one, and copies a command.
for name in plan hostile_plan; do
  { cat "$folder/$name.html"; cat <<'SCRIPT'
<script>
const points = [...document.querySelectorAll(".frontier a")], tip = document.getElementById("tip"), walked = [];
const look = () => walked.push((document.activeElement.getAttribute("href") || "none") + (tip.style.display === "block" ? " shown" : " hidden"));
const focused = () => { document.activeElement.dispatchEvent(new FocusEvent("focus")); look(); };  // a window in the back gets none
points[0].focus(); focused();
points[0].dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true})); focused();
document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key: "Escape", bubbles: true}));
points[1].dispatchEvent(new FocusEvent("blur"));
walked.push(tip.style.display === "block" ? "shown" : "hidden");
points[2].dispatchEvent(new PointerEvent("pointerenter"));
walked.push(document.querySelectorAll(".plans .pointed").length + " marked");
document.querySelector(".command button").click();
if (document.title.startsWith("stolen")) walked.push("stolen");
document.documentElement.dataset.walked = walked.join("; ");
document.documentElement.dataset.wide = document.documentElement.scrollWidth > innerWidth;
</script>
SCRIPT
  } >"$folder/used_$name.html"
  for width in 1400 390; do
    open_page "$folder/used_$name.html" --dump-dom --window-size=$width,900 >"$folder/dom"
    if grep 'CONSOLE' "$folder/log"; then fail "$name: the console is not silent"; fi
    [[ $(value_of ready) == true && $(value_of plans) == 3 ]] || fail "$name: the script did not reach its end"
    [[ $(value_of walked) == '#plan-3 shown; #plan-2 shown; hidden; 1 marked' ]] || fail "$name: walked $(value_of walked)"
    [[ $(value_of wide) == false ]] || fail "$name: wider than a window of $width"
  done
done
open_page "$folder/plan.html" --screenshot="$folder/plan.png" --window-size=390,900 >/dev/null || fail 'no screenshot'
(($(stat -c %s "$folder/plan.png") > 10000)) || fail 'the screenshot of the plans is empty'
[[ $failed == no ]]
