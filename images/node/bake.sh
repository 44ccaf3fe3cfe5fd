#!/bin/sh
# Readies a machine for being made into an image, so that nodes of that image have less to fetch.
#
# Usage: bake.sh [--bundle s3://BUCKET/cluster/node-DIGEST.zip] [IMAGE…]
#
# Run it as root on a machine that was started from a stock image and never was a node, with
# burst's folder `boot` beside it or in BURST_BOOT. Each IMAGE, as environment.image names it, is
# pulled, so that a trial finds it. Stop the machine then, and make the image.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
boot=${BURST_BOOT:-$here/../../core/burst/core/aws/boot}
python=${BURST_PYTHON:-/opt/pytorch/bin/python}
etc=${BURST_ETC:-/etc/burst}

if [ -e "$etc/node.env" ]; then
    echo "this machine is a node: its image would boot as one of that cluster; take another" >&2
    exit 1
fi
export PATH="$PATH:${python%/*}"
if [ "${1:-}" = --bundle ]; then
    sh "$boot/bundle.sh" "$2" "$python" >/dev/null
    shift 2
fi
for image in "$@"; do
    docker pull --quiet "$image"
done
# What cloud-init remembers would keep it from running the user data of the machines to come.
cloud-init clean --logs
echo "ready: stop this machine and make an image of it"
