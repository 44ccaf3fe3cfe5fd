#!/usr/bin/env bash
# Puts the report on the pull request. That it could not is a warning: the experiment is not to blame.
#
# in   BURST KEY THREAD PULL_REQUEST GITHUB_TOKEN, and what GitHub tells every step
set -euo pipefail
# shellcheck source=/dev/null
source "$(dirname "${BASH_SOURCE[0]}")/telling.sh"

if [ -z "$PULL_REQUEST" ]; then
    echo "No pull request started this workflow, so there is none to comment on."
    exit 0
fi
stop_commands
status=0
"$BURST" report --comment "$PULL_REQUEST" --as "$THREAD" -- "key:$KEY" || status=$?
resume_commands
if [ "$status" -ne 0 ]; then
    annotation warning "The pull request has no comment" "The log of the step says why."
fi
