#!/usr/bin/env bash
# Installs burst in an environment of its own, and gives the experiment its names.
#
# in   GIVEN_KEY NAME MATRIX INPUTS VERSION PYTHON, and what GitHub tells every step
# out  burst   the command's path
#      key     the same when the job is run again, and another one for every run
#      thread  the same for every run of the workflow: which comment is its own
set -euo pipefail
# shellcheck source=/dev/null
source "$(dirname "${BASH_SOURCE[0]}")/telling.sh"

one_line() { tr -s '\n\r\t ' ' ' <<< "$1" | sed 's/ *$//'; }

what=$(one_line "$GITHUB_JOB $MATRIX $INPUTS${NAME:+ $NAME}")
asked=$(one_line "$VERSION")
key=$(one_line "$GIVEN_KEY")
{
    printf 'key=%s\n' "${key:-$GITHUB_REPOSITORY $what, run $GITHUB_RUN_ID}"
    printf 'thread=%s\n' "${key:-$(one_line "$GITHUB_WORKFLOW") $what}"
} >> "$GITHUB_OUTPUT"

if [ "$asked" = installed ]; then
    if ! burst=$(command -v burst); then
        annotation error "burst is not installed" "The input 'version' is 'installed', and there is no burst on the PATH."
        exit 1
    fi
    printf 'burst=%s\n' "$burst" >> "$GITHUB_OUTPUT"
    exit 0
fi

if ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null; then
    annotation error "burst needs Python 3.11" \
        "'$PYTHON' is none, or older. Put actions/setup-python before this step, or name another with the input 'python'."
    exit 1
fi
stop_commands
place="$RUNNER_TEMP/burst"
own=$(cd "$GITHUB_ACTION_PATH/../../.." && pwd)
wanted=("$asked")
if [ -z "$asked" ]; then
    wanted=(--constraint "$own/constraints.txt" "$own")
fi
"$PYTHON" -m venv "$place"
"$place/bin/python" -m pip install --quiet --disable-pip-version-check "${wanted[@]}"
"$place/bin/burst" --version
printf 'burst=%s\n' "$place/bin/burst" >> "$GITHUB_OUTPUT"
