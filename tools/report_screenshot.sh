#!/usr/bin/env bash
# What a reader of report.html sees: a picture of the page, taken by headless Chromium (Debian package chromium).
# usage: tools/report_screenshot.sh RUN OUTPUT.png [HEIGHT]     HEIGHT of the window in pixels, 3600 by default
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
page=$(readlink -f "$1/report.html") || { echo "report_screenshot: $1: got no report.html, expected a run folder. Run: tandem report $1" >&2; exit 4; }
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
  echo "report_screenshot: no Chromium found. Install it: apt-get install chromium" >&2; exit 6; }
"$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size="1200,${3:-3600}" \
  --screenshot="$(readlink -m "$2")" "file://$page" > /dev/null 2>&1
[ -s "$2" ] && echo "$2"
