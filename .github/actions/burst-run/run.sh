#!/usr/bin/env bash
# Becomes `burst run`, so that a cancellation reaches it and its exit status is the step's.
#
# in   BURST KEY EXPERIMENT POOL SET BUDGET TIMEOUT WAIT ON_CANCEL LOGS
set -euo pipefail
# shellcheck source=/dev/null
source "$(dirname "${BASH_SOURCE[0]}")/telling.sh"

wrong() {
    annotation error "$1" "$2"
    exit 2
}

given=(--key "$KEY")
IFS=$' \t\n,' read -r -d '' -a pools <<< "$POOL" || true
for name in ${pools[@]+"${pools[@]}"}; do  # the bash of macOS calls an empty array unset
    given+=(--pool "$name")
done
while IFS= read -r line; do
    line=${line%$'\r'}
    [ -z "${line//[[:space:]]/}" ] || given+=(--set "$line")
done <<< "$SET"
[ -z "$BUDGET" ] || given+=(--set "budget.usd=$BUDGET")
[ -z "$TIMEOUT" ] || given+=(--timeout "$TIMEOUT")
case "$LOGS" in
    true) given+=(--follow) ;;
    false) ;;
    *) wrong "logs is '$LOGS'" "It can be true or false." ;;
esac
case "$ON_CANCEL" in
    pause | cancel | leave) ;;
    *) wrong "on-cancel is '$ON_CANCEL'" "It can be pause, cancel or leave." ;;
esac
case "$WAIT" in
    true) given+=(--on-interrupt "$ON_CANCEL") ;;
    false)
        [ -z "$TIMEOUT" ] || wrong "timeout goes with wait: true" \
            "With wait: false nobody watches the time, so nothing was submitted. Take one of the two away."
        given+=(--detach)
        ;;
    *) wrong "wait is '$WAIT'" "It can be true or false." ;;
esac
stop_commands
exec "$BURST" run "${given[@]}" -- "$EXPERIMENT"
