#!/usr/bin/env bash
# Installs burst in an environment of its own, and gives the experiment its names.
#
# in   GIVEN_KEY MATRIX INPUTS VERSION PYTHON, and what GitHub tells every step
# out  burst   the command's path
#      key     the same when the job is run again, and another one for every run
#      thread  the same for every run of the workflow: which comment is its own
set -euo pipefail

one_line() { tr -s '\n\r\t ' ' ' <<< "$1" | sed 's/ *$//'; }

what=$(one_line "$GITHUB_JOB $MATRIX $INPUTS")
key=$(one_line "$GIVEN_KEY")
{
    printf 'key=%s\n' "${key:-$GITHUB_REPOSITORY $what, run $GITHUB_RUN_ID}"
    printf 'thread=%s\n' "${key:-$(one_line "$GITHUB_WORKFLOW") $what}"
} >> "$GITHUB_OUTPUT"

if [ "$VERSION" = installed ]; then
    if ! burst=$(command -v burst); then
        echo "::error title=burst is not installed::The input 'version' is 'installed', and there is no burst on the PATH."
        exit 1
    fi
    printf 'burst=%s\n' "$burst" >> "$GITHUB_OUTPUT"
    exit 0
fi

if ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "::error title=burst needs Python 3.11::'$PYTHON' is none, or older. Put actions/setup-python before this step, or name another with the input 'python'."
    exit 1
fi
place="$RUNNER_TEMP/burst"
own=$(cd "$GITHUB_ACTION_PATH/../../.." && pwd)
wanted=("$VERSION")
if [ -z "$VERSION" ]; then
    wanted=(--constraint "$own/constraints.txt" "$own")
fi
"$PYTHON" -m venv "$place"
"$place/bin/python" -m pip install --quiet --disable-pip-version-check "${wanted[@]}"
"$place/bin/burst" --version
printf 'burst=%s\n' "$place/bin/burst" >> "$GITHUB_OUTPUT"
