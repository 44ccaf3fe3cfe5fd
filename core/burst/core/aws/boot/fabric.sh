#!/bin/sh
# Says how many Elastic Fabric Adapters libfabric can use, of those that the machine was given.
#
# Usage: fabric.sh COUNT
#
# It never fails: the agent looks for itself, and tells the cluster what keeps a node from training.
set -u

wanted=$1
PATH=$PATH:/opt/amazon/efa/bin

if ! command -v fi_info >/dev/null; then
    echo "burst: EFA: $wanted adapters, and no fi_info: the image lacks the EFA software"
    exit 0
fi
answer=$(fi_info -p efa 2>&1) || answer="fi_info: ${answer:-it failed}"
# A device has a domain for each kind of endpoint: rdmap0s31-rdm, rdmap0s31-dgrm.
found=$(echo "$answer" | sed -n 's/^ *domain: *//p' | sed 's/-[a-z]*$//' | sort -u | wc -l)
echo "burst: EFA: libfabric shows $((found)) of $wanted adapters"
if [ "$found" -eq 0 ]; then
    echo "burst: EFA: $(echo "$answer" | tail -n 1)"
fi
