#!/bin/sh
# Makes one file system of the machine's local NVMe disks, and prints where it is mounted; prints
# nothing where there are none, or where they cannot be used, so that the root disk serves.
#
# Usage: disks.sh
#
# Only instance store is touched, never a volume of EBS, and only what is blank or was made here.
# A mounted file system on them is taken as it is: the Deep Learning AMI makes one itself.
# Everything on these disks is lost when the machine ends; a reboot keeps it.
set -u

mount_point=${BURST_DISKS:-/mnt/burst}
dev=${BURST_DEV:-/dev}
label=burst

say() { echo "burst: $*" >&2; }

# Paths of the instance store's disks, of what lsblk says.
local_disks() {
    echo "$1" | while read -r name model; do
        case $model in
        Amazon?EC2?NVMe?Instance?Storage*) echo "$name" ;;
        esac
    done
}

# Where something that stands on these disks is mounted.
mounted() {
    lsblk --noheadings --list --output MOUNTPOINT "$@" | grep '^/' | head -n 1
}

blank() {
    [ "$(lsblk --noheadings --raw --output TYPE,FSTYPE "$1" | tr -d ' ')" = disk ]
}

says() { blkid -s "$1" -o value "$2"; }

# What was made of these disks at an earlier boot: an array, or one disk's file system.
made_before() {
    members=
    for disk in "$@"; do
        case $(says TYPE "$disk"):$(says LABEL "$disk") in
        "linux_raid_member:$label" | linux_raid_member:*":$label") members="$members $disk" ;;
        *":$label") echo "$disk" && return ;;
        esac
    done
    [ -n "$members" ] || return
    # shellcheck disable=SC2086
    set -- $members
    mdadm --assemble "$dev/md/$label" "$@" >/dev/null 2>&1
    lsblk --noheadings --raw --paths --output TYPE,NAME "$@" | sed -n 's/^raid0 //p' | head -n 1
}

# The device that the file system is to be on: an array if there are several disks.
joined() {
    if [ $# -gt 1 ] && command -v mdadm >/dev/null; then
        mdadm --create "$dev/md/$label" --run --quiet --level=0 --name="$label" --homehost=any \
            --raid-devices=$# "$@" >&2 && echo "$dev/md/$label"
        return
    fi
    [ $# -eq 1 ] || say "there is no mdadm: only $1 of $# local disks is used"
    echo "$1"
}

# Neither discards blocks first, which takes minutes: the disks of a new machine are blank.
formatted() {
    [ "$(says LABEL "$1")" = "$label" ] && return
    if command -v mkfs.xfs >/dev/null; then
        mkfs.xfs -q -K -L "$label" "$1" >&2
    else
        mkfs.ext4 -q -m 0 -E nodiscard,lazy_itable_init=1 -L "$label" "$1" >&2
    fi
}

use() {
    device=$(made_before "$@")
    if [ -z "$device" ]; then
        free=
        for disk in "$@"; do
            if blank "$disk"; then free="$free $disk"; fi
        done
        if [ -z "$free" ]; then
            say "the local disks hold what burst did not make"
            return 1
        fi
        # shellcheck disable=SC2086
        device=$(joined $free) || return 1
    fi
    formatted "$device" && mkdir -p "$mount_point" && mount -o noatime "$device" "$mount_point" >&2
}

if ! listed=$(lsblk --nodeps --noheadings --paths --output NAME,MODEL 2>&1); then
    say "cannot look for local disks: ${listed:-lsblk fails}; burst's files are on the root disk"
    exit
fi
# shellcheck disable=SC2046
set -- $(local_disks "$listed")
if [ $# -eq 0 ]; then
    say "local disks: none; burst's files are on the root disk"
elif found=$(mounted "$@") && [ -n "$found" ]; then
    say "local disks: $#, mounted at $found"
    echo "$found"
elif use "$@"; then
    say "local disks: $#, now mounted at $mount_point"
    echo "$mount_point"
else
    say "local disks: $#, which cannot be used; burst's files are on the root disk"
fi
