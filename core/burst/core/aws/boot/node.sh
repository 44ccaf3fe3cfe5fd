#!/bin/sh
# Readies this machine and becomes its agent. burst-node.service runs it at every boot.
#
# Usage: node.sh
#
# node.env in BURST_ETC (/etc/burst), which the user data has written, says what it has to know:
#
#   BURST_PYTHON   the Python that has torch
#   BURST_BUNDLE   where burst is fetched from, for bundle.sh; empty if that Python has it
#   BURST_EFA      Elastic Fabric Adapters that the machine was given, for fabric.sh
#   BURST_HOME     where burst keeps its files; if it is not said, where disks.sh says
set -eu

etc=${BURST_ETC:-/etc/burst}
if [ ! -r "$etc/node.env" ]; then
    echo "burst: there is no $etc/node.env; the launch template's user data writes it" >&2
    exit 1
fi
set -a
# shellcheck source=/dev/null
. "$etc/node.env"
set +a
python=${BURST_PYTHON:-python}

# The AWS CLI is a program of the system or a package of that Python.
case $python in */*) PATH=$PATH:${python%/*} ;; esac
export PATH="$PATH:/usr/local/bin:/snap/bin:$etc"
if [ -z "${DOCKER_CONFIG:-}" ] && [ ! -e "${HOME:-/root}/.docker/config.json" ]; then
    export DOCKER_CONFIG="$etc/docker"
    mkdir -p "$DOCKER_CONFIG"
    echo '{"credsStore": "burst"}' >"$DOCKER_CONFIG/config.json"
fi

if [ -z "${BURST_HOME:-}" ]; then
    disks=$(sh "$etc/disks.sh")
    export BURST_HOME="${disks:-/var/lib}/burst"
fi
if [ -n "${BURST_EFA:-}" ]; then
    sh "$etc/fabric.sh" "$BURST_EFA"
    # NCCL's plugin for EFA, which only a login shell would find.
    plugins=${BURST_AMAZON:-/opt/amazon}/ofi-nccl/lib
    for folder in "$plugins" "$plugins"/*-linux-gnu; do
        [ ! -d "$folder" ] || LD_LIBRARY_PATH="$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    done
    export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}"
fi
if [ -n "${BURST_BUNDLE:-}" ]; then
    bundle=$(sh "$etc/bundle.sh" "$BURST_BUNDLE" "$python")
    export PYTHONPATH="$bundle${PYTHONPATH:+:$PYTHONPATH}"
fi

read -r up _ </proc/uptime
echo "burst: the agent begins, ${up%%.*} s after the machine started; its files are in $BURST_HOME"
exec "$python" -m burst.runner.node
