#!/bin/sh
# Fetches burst, and prints the folder to put on PYTHONPATH.
#
# Usage: bundle.sh s3://BUCKET/cluster/node-DIGEST.zip PYTHON
#
# It is unpacked to BURST_OPT/DIGEST (/opt/burst), whole or not at all; what is there already,
# because the machine was booted before or its image has it, is not fetched again. It tries for
# about five minutes, and says at every try what S3 answered. What no further try can mend ends it
# at once. The last line says why it ended.
set -u

url=$1
python=$2
opt=${BURST_OPT:-/opt/burst}
tries=${BURST_BUNDLE_TRIES:-14}
pause=${BURST_BUNDLE_PAUSE:-2}
digest=${url##*/node-}
digest=${digest%.zip}
folder=$opt/$digest
partial=$opt/.$digest

say() { echo "burst: $*" >&2; }

fail() {
    say "$*"
    rm -rf "$partial"
    exit 1
}

# The last line that a program said, or else how it ended.
last() { echo "$1" | grep . | tail -n 1 | grep . || echo "status $2, without a word"; }

fetch() {
    timeout 120 aws s3 cp --only-show-errors --cli-connect-timeout 10 --cli-read-timeout 30 \
        "$url" "$partial/zip"
}

unpack() { rm -rf "$partial/tree" && "$python" -m zipfile -e "$partial/zip" "$partial/tree"; }

version=$(timeout 60 "$python" -c 'import sys; print(sys.version.split()[0])' 2>&1) ||
    fail "cannot run aws.python, $python: $(last "$version" $?)"
case $version in
[1-9]*) ;;
*) fail "aws.python, $python, is no Python: asked for its version, it says '$version'" ;;
esac
if [ -d "$folder" ]; then
    say "has burst $digest already"
    echo "$folder"
    exit 0
fi
command -v aws >/dev/null ||
    fail "cannot fetch $url: the image has no AWS CLI (aws); install it there, or burst itself"
answer=$({ rm -rf "$partial" && mkdir -p "$partial"; } 2>&1) ||
    fail "cannot write to $opt: $(last "$answer" $?)"

try=1
fetched=0
while :; do
    answer=$(fetch 2>&1) && fetched=$((fetched + 1)) && answer=$(unpack 2>&1) && break
    why=$(last "$answer" $?)
    # What cannot be unpacked may have been cut on its way, but not twice.
    case $fetched:$why in
    2:* | *"No space left"* | *"Read-only file"* | *"failed to run"* | *"(404)"* | *NoSuchBucket*)
        fail "cannot have $url: $why"
        ;;
    esac
    [ "$try" -lt "$tries" ] || fail "gives up: cannot fetch $url: $why"
    say "cannot fetch $url yet ($try of $tries): $why"
    sleep "$pause"
    pause=$((pause < 30 ? pause * 2 : 30))
    try=$((try + 1))
done

answer=$(PYTHONPATH=$partial/tree "$python" -c 'import burst.runner.node.main' 2>&1) ||
    fail "cannot run under $python, Python $version; see aws.python_version: $(last "$answer" $?)"
answer=$(mv "$partial/tree" "$folder" 2>&1) ||
    fail "cannot put it in $folder: $(last "$answer" $?)"
rm -rf "$partial"
say "has burst $digest now"
echo "$folder"
