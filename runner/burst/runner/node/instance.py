"""An instance in EC2, as the machine below an agent."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from burst.core.clock import Clock
from burst.core.model import Json
from burst.runner.agent.host import Host, Reclaim
from burst.runner.node.checks import Found, facts_of, gather, problems_of
from burst.runner.node.imds import Identity, Imds
from burst.runner.node.notices import Watcher

log = logging.getLogger(__name__)

RUN_VARIABLE = "BURST_RUN"
_RUN = "/run/burst"
REGISTERED, RENEWED = "registered", "renewed"
"""Files whose text is the machine's uptime when the agent last could say so."""
_UPTIME = Path("/proc/uptime")


class Instance(Host):
    """Hears notices, and leaves signs of life for the timers that end a machine without them."""

    ends = True

    def __init__(
        self,
        identity: Identity,
        imds: Imds,
        clock: Clock,
        *,
        efa: bool = False,
        asked: str = "",
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """
        Args:
            efa: whether the pool wants Elastic Fabric Adapters.
            asked: URL of an AWS service whose answers tell its time; empty asks nobody.
        """
        self._environ = os.environ if environ is None else environ
        self._identity = identity
        self._efa = efa
        self._asked = asked
        self._found = Found()
        self._wake: Callable[[], None] = lambda: None
        self._watcher = Watcher(imds, clock, self._changed)

    @property
    def reclaim(self) -> Reclaim | None:
        return self._watcher.reclaim

    @property
    def rebalance(self) -> float | None:
        return self._watcher.rebalance

    def __enter__(self) -> Instance:
        self._watcher.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._watcher.close()

    def listen(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def facts(self) -> Mapping[str, Json]:
        return {
            "instance_type": self._identity.type,
            "zone": self._identity.zone,
            "address": self._identity.address,
            "image": self._identity.image,
            **facts_of(self._found),
        }

    def problems(self) -> list[str]:
        self._found = gather(self._asked, self._environ)
        return problems_of(self._found, self._identity.type, self._efa)

    def registered(self) -> None:
        self._sign(REGISTERED)

    def renewed(self) -> None:
        self._sign(RENEWED)

    def _changed(self) -> None:
        self._wake()

    def _sign(self, name: str) -> None:
        """Never fails: without signs the timers end the machine, which is their purpose."""
        folder = Path(self._environ.get(RUN_VARIABLE) or _RUN)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            partial = folder / f".{name}.partial"
            partial.write_text(_UPTIME.read_text().split(".")[0])
            os.replace(partial, folder / name)
        except OSError as error:
            log.warning("leaving the sign %r in %s: %s", name, folder, error)
