#!/bin/sh
# Fetches burst, and prints the folder to put on PYTHONPATH.
#
# Usage: bundle.sh s3://BUCKET/cluster/node-DIGEST.zip PYTHON
#
# It is unpacked to BURST_OPT/DIGEST (/opt/burst), whole or not at all; what is there already,
# because the machine was booted before or its image has it, is not fetched again. It tries for
# about five minutes, and says at every try what S3 answered.
set -u

url=$1
python=$2
opt=${BURST_OPT:-/opt/burst}
tries=${BURST_BUNDLE_TRIES:-14}
pause=${BURST_BUNDLE_PAUSE:-2}

say() { echo "burst: $*" >&2; }

fetch() {
    rm -rf "$partial" && mkdir -p "$partial" &&
        timeout 120 aws s3 cp --only-show-errors --cli-connect-timeout 10 --cli-read-timeout 30 \
            "$url" "$partial/zip" &&
        "$python" -m zipfile -e "$partial/zip" "$partial/tree"
}

digest=${url##*/node-}
digest=${digest%.zip}
folder=$opt/$digest
partial=$opt/.$digest
if [ -d "$folder" ]; then
    say "has burst $digest already"
    echo "$folder"
    exit 0
fi

if ! command -v aws >/dev/null; then
    say "cannot fetch $url: the image has no AWS CLI (aws); install it there, or burst itself"
    exit 1
fi

try=1
until answer=$(fetch 2>&1); do
    say "cannot fetch $url yet ($try of $tries): $(echo "$answer" | tail -n 1)"
    if [ "$try" -ge "$tries" ]; then
        say "gives up: the node's role has to read that object, and the network has to reach S3"
        exit 1
    fi
    sleep "$pause"
    pause=$((pause < 30 ? pause * 2 : 30))
    try=$((try + 1))
done

if ! answer=$(PYTHONPATH=$partial/tree "$python" -c 'import burst.runner.node.main' 2>&1); then
    say "cannot run under $python, $("$python" -V 2>&1): $(echo "$answer" | tail -n 1)"
    say "what was fetched is for another Python; say which one the image has in burst.yaml"
    exit 1
fi
if ! mv "$partial/tree" "$folder"; then
    say "cannot put it in $folder"
    exit 1
fi
rm -rf "$partial"
say "has burst $digest now"
echo "$folder"
