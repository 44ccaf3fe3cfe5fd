#!/usr/bin/env bash
# The outputs, and the job's summary. Where there is nothing to report the step before has failed
# already, and this one does not.
#
# in   BURST KEY
set -euo pipefail
# shellcheck source=/dev/null
source "$(dirname "${BASH_SOURCE[0]}")/telling.sh"

stop_commands
status=0
told=$("$BURST" report --env -- "key:$KEY") || status=$?
if [ "$status" -ne 0 ]; then
    why="It cannot be told what came of the experiment"
    [ "$status" -ne 4 ] || why="No experiment was submitted"
    echo "$why; the job's log says why." >> "$GITHUB_STEP_SUMMARY"
    exit 0
fi
printf '%s\n' "$told" >> "$GITHUB_OUTPUT"
"$BURST" report -- "key:$KEY" >> "$GITHUB_STEP_SUMMARY"
resume_commands
if grep -qx 'state=failed' <<< "$told"; then
    reason=$(sed -n 's/^reason=//p' <<< "$told")
    annotation error "The experiment failed" "$reason"
fi
if grep -qx 'state=paused' <<< "$told"; then
    printf '\nRun this job again to go on from there.\n' >> "$GITHUB_STEP_SUMMARY"
fi
