#!/bin/sh
# Starts burst at a machine's first boot, after the user data has written its files to $etc.
#
# With systemd the timers and the agent are units, which every later boot starts as well. Elsewhere
# they are processes, this one becomes the agent, and the disks are not for burst to take.
set -eu

etc=${BURST_ETC:-/etc/burst}
units=${BURST_UNITS:-}
if [ -z "$units" ] && [ "$etc" = /etc/burst ] && [ -d /run/systemd/system ]; then
    units=/etc/systemd/system
fi

chmod 700 "$etc/docker-credential-burst"
if [ -n "$units" ]; then
    cp "$etc"/burst-*.service "$units"
    systemctl daemon-reload
    for unit in burst-deadman.service burst-node.service; do
        # To wait for it here could be to wait for oneself: this is a part of the boot.
        systemctl enable --now --no-block "$unit"
    done
    exit
fi

export BURST_HOME="${BURST_HOME:-${HOME:-/root}/.burst}"
set -a
# shellcheck source=/dev/null
. "$etc/node.env"
set +a
BURST_AGENT_PID=$$ sh "$etc/deadman.sh" &
exec sh "$etc/node.sh"
