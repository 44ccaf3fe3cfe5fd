"""Whether this machine's clock agrees with AWS's, which refuses what is signed by a wrong one."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from burst.core.aws.sessions import aws_session
from burst.core.clock import Clock
from burst.core.errors import Refused

MOST_SKEW_S = 300.0
"""AWS refuses requests that are signed by a clock further off than this."""
_ANSWER_WITHIN_S = 5.0
_PATIENCE_S = 60.0
_PAUSE_S = 5.0


def time_url(environ: Mapping[str, str], region: str) -> str:
    """Whose answers tell AWS's time: the store's or the blobs' service; empty for neither."""
    used = environ.get("BURST_STORE", ""), environ.get("BURST_BLOBS", "")
    for scheme, service in (("dynamodb:", "dynamodb"), ("s3:", "s3")):
        if any(url.startswith(scheme) for url in used):
            # Only its address is wanted, so nobody's credentials are looked for.
            nobody = {"aws_access_key_id": "none", "aws_secret_access_key": "none"}
            client = aws_session().client(service, region_name=region, **nobody)
            return str(client.meta.endpoint_url)
    return ""


def check_clock(asked: str, clock: Clock) -> None:
    """See that this machine's clock is near AWS's; one that has just booted may be set soon.

    Raises:
        Refused: it is not, and stays so.
    """
    until = clock.monotonic() + _PATIENCE_S
    while asked:
        skew = skew_of(asked)
        if skew is None or abs(skew) <= MOST_SKEW_S:
            return
        if clock.monotonic() >= until:
            raise Refused("this machine's clock is wrong", why=skew_in_words(skew))
        clock.sleep(_PAUSE_S)


def skew_in_words(skew: float) -> str:
    side = "ahead of" if skew > 0 else "behind"
    return (
        f"this machine's clock is {abs(skew) / 60:.1f} min {side} AWS's, which refuses requests "
        f"signed more than {MOST_SKEW_S / 60:.0f} min off: let the image's chrony use the time "
        "service at 169.254.169.123"
    )


def skew_of(url: str) -> float | None:
    """Seconds that this machine's clock is ahead of the service's at `url`; None if that does not
    answer. Nothing is signed, so it works however wrong the clock is."""
    began = time.time()
    try:
        with _OPENER.open(url, timeout=_ANSWER_WITHIN_S) as answer:
            date = answer.headers.get("Date")
    except urllib.error.HTTPError as error:
        date = error.headers.get("Date")
        error.close()
    except (OSError, ValueError):
        return None
    try:
        theirs = parsedate_to_datetime(date).timestamp() if date else None
    except ValueError:
        return None
    return None if theirs is None else (began + time.time()) / 2 - theirs


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """S3 sends whoever is not signed to a page elsewhere; its own answer has the date already."""

    def redirect_request(self, *_: object) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect())
