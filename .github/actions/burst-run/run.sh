#!/usr/bin/env bash
# Becomes `burst run`, so that a cancellation reaches it and its exit status is the step's.
#
# in   BURST KEY EXPERIMENT POOL SET BUDGET TIMEOUT WAIT ON_CANCEL LOGS
set -euo pipefail

wrong() {
    echo "::error title=$1 is '$2'::It can be $3."
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
    *) wrong logs "$LOGS" "true or false" ;;
esac
case "$ON_CANCEL" in
    pause | cancel | leave) given+=(--on-interrupt "$ON_CANCEL") ;;
    *) wrong on-cancel "$ON_CANCEL" "pause, cancel or leave" ;;
esac
case "$WAIT" in
    true) ;;
    false) given+=(--detach) ;;
    *) wrong wait "$WAIT" "true or false" ;;
esac
exec "$BURST" run "${given[@]}" -- "$EXPERIMENT"
