"""In which region AWS is asked, where no URL says so."""

from __future__ import annotations

import os
from typing import Any


def region_of(session: Any) -> str | None:
    """What the environment or the profile says. boto3 does not know AWS_REGION, though AWS's
    other tools do.

    Args:
        session: boto3's.
    """
    said = os.environ.get("AWS_DEFAULT_REGION") or os.environ.get("AWS_REGION")
    region: str | None = said or session.region_name
    return region
