#!/bin/sh
# Makes this machine a node: starts the timers that end it in any case, then the agent.
#
# Usage: boot.sh
#
# What a node has to know is read from node.env in BURST_ETC (/etc/burst), which the launch
# template's user data has written. With systemd the timers and the agent are the units beside this
# file; elsewhere they are processes in the background.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
etc=${BURST_ETC:-/etc/burst}
deadman=${BURST_DEADMAN:-$here/deadman.sh}
python=${BURST_PYTHON:-python}

if [ ! -r "$etc/node.env" ]; then
    echo "burst: there is no $etc/node.env; the launch template's user data writes it" >&2
    exit 1
fi

if [ -d /run/systemd/system ] && [ -z "${BURST_NO_SYSTEMD:-}" ]; then
    systemctl start burst-deadman.timer
    exec systemctl start burst-node.service
fi

set -a
# shellcheck source=/dev/null
. "$etc/node.env"
set +a

sh "$deadman" &
(
    status=0
    "$python" -m burst.runner.node || status=$?
    echo "burst: the agent ended with status $status"
    PATH=$PATH:/usr/sbin:/sbin shutdown -h now
) &
