"""The `shutdown` of a machine, also as `poweroff` and `halt`: ends it, or says when it ends.

Started by path with the standard library alone. Usage: shutdown.py URL [options] [now|+MINUTES].
"""

from __future__ import annotations

import http.client
import json
import sys
from urllib.parse import urlsplit

_NOW = ("now", "+0")


def main(argv: list[str]) -> int:
    url, *arguments = argv
    plain = [argument for argument in arguments if not argument.startswith("-")]
    if "-c" in arguments:
        body: dict[str, object] = {"cancel": True}
    else:
        when = plain[0] if plain else "now"
        try:
            body = {"after": 0.0 if when in _NOW else 60.0 * int(when.removeprefix("+"))}
        except ValueError:
            print(f"shutdown: cannot tell when {when!r} is: use now or +MINUTES", file=sys.stderr)
            return 1
    where = urlsplit(url)
    try:
        connection = http.client.HTTPConnection(where.netloc, timeout=30)
        connection.request("POST", where.path, json.dumps(body))
        status = connection.getresponse().status
    except OSError as error:
        print(f"shutdown: {error}", file=sys.stderr)
        return 1
    return 0 if status == http.client.OK else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
