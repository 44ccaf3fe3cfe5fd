"""The program: every resource of a cluster, from its settings alone."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi

from burst.infra.settings import Settings


def build(settings: Settings) -> Mapping[str, pulumi.Input[object]]:
    """Register everything, and return what the stack tells of itself.

    Must be called inside a Pulumi program: by `infra/__main__.py` or by `burst up`.
    """
    return {"cluster": settings.cluster}
