"""What is looked at before anything is made: may it be, can it be, what will it cost."""

from burst.infra.preflight.checking import Check, Verdict
from burst.infra.preflight.gathering import gather
from burst.infra.preflight.preflight import Preflight, preflight
from burst.infra.preflight.shared import prepare

__all__ = ["Check", "Preflight", "Verdict", "gather", "preflight", "prepare"]
