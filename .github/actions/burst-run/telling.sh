# shellcheck shell=bash
# Sourced by the steps. What they print may hold words of others, and GitHub obeys what looks like a
# command wherever it is printed.

escaped() {
    local words=${1//'%'/%25}
    words=${words//$'\r'/%0D}
    words=${words//$'\n'/%0A}
    printf '%s' "$words"
}

# annotation KIND TITLE TEXT
annotation() {
    local title
    title=$(escaped "$2")
    title=${title//:/%3A}
    printf '::%s title=%s::%s\n' "$1" "${title//,/%2C}" "$(escaped "$3")"
}

# From here on nothing is obeyed, until resume_commands. One stream, since only then is the order kept.
stop_commands() {
    exec 2>&1
    word=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    echo "::stop-commands::$word"
}

resume_commands() {
    echo "::$word::"
}
