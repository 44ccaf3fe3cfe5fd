#!/bin/sh
# Ends this machine when nobody can be seen to need it, with neither an agent nor credentials.
#
# Usage: deadman.sh [--once]
#
# Without --once it looks every few seconds, for ever. It ends the machine (`shutdown -h now`, which
# the launch template makes a termination) when one of these is so:
#
#   life        it has been up for BURST_MAX_LIFE seconds
#   register    no agent has registered it BURST_REGISTER_WITHIN seconds after the first look
#   renew       its agent has not renewed its lease for BURST_RENEW_WITHIN seconds
#   agent       the process BURST_AGENT_PID, if that is set, is there no more
#
# An agent says that it registered and renewed with the files `registered` and `renewed` in
# BURST_RUN; their text is the machine's uptime then. Times are differences of uptime, so that a
# clock which is set after the boot ends nothing.
set -u

run=${BURST_RUN:-/run/burst}
agent=${BURST_AGENT_PID:-}

# Whether a text is a number of seconds that the shell reckons with; no machine lives 31 years.
number() {
    case $1 in
    '' | *[!0-9]* | 0?* | ??????????*) return 1 ;;
    esac
}

# A time that was set, or else its default: what is no number switches nothing off.
limit() {
    if number "${2:-$3}"; then
        echo "${2:-$3}"
    else
        echo "burst: $1 is no number of seconds: $2; it is $3 now" >&2
        echo "$3"
    fi
}

max_life=$(limit BURST_MAX_LIFE "${BURST_MAX_LIFE:-}" 608400)
register_within=$(limit BURST_REGISTER_WITHIN "${BURST_REGISTER_WITHIN:-}" 900)
renew_within=$(limit BURST_RENEW_WITHIN "${BURST_RENEW_WITHIN:-}" 1200)
every=${BURST_LOOK_EVERY:-15}
number "${every#0.0}" || every=$(limit BURST_LOOK_EVERY "$every" 15)

uptime_s() {
    read -r up _ </proc/uptime
    echo "${up%%.*}"
}

# The uptime that a file holds; what it is not there to say, or says wrongly, counts as never, and
# so does one still to come: it would hold the machine until then.
noted() {
    at=
    [ -r "$run/$1" ] && read -r at <"$run/$1"
    if number "$at" && [ "$at" -le "$(uptime_s)" ]; then echo "$at"; else echo "$2"; fi
}

# Why the machine has to end; empty while it has not.
verdict() {
    now=$(uptime_s)
    first=$(noted first-look "$began")
    registered=$(noted registered "$first")
    renewed=$(noted renewed "$registered")
    if [ $((now - first)) -ge "$max_life" ]; then
        echo "it has been up for its maximum life of $max_life s"
    elif [ -n "$agent" ] && [ ! -d "/proc/$agent" ]; then
        echo "its agent, process $agent, has ended"
    elif [ ! -e "$run/registered" ]; then
        [ $((now - first)) -lt "$register_within" ] ||
            echo "no agent has registered it within $register_within s"
    elif [ $((now - renewed)) -ge "$renew_within" ]; then
        echo "its agent has not renewed its lease for $renew_within s"
    fi
}

end_machine() {
    echo "burst: ending this machine: $1"
    PATH=$PATH:/usr/sbin:/sbin shutdown -h now
}

began=$(uptime_s)
mkdir -p "$run"
[ -s "$run/first-look" ] || echo "$began" >"$run/first-look"
while :; do
    why=$(verdict)
    [ -z "$why" ] || end_machine "$why"
    [ "${1:-}" != --once ] || exit 0
    sleep "$every"
done
