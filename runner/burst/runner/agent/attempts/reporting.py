"""What an attempt tells while it runs: its logs, and what its hardware does."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from burst.runner.agent.attempts.shipping import Shipper, ShippingThread
from burst.runner.agent.ends.gang import nodes_of
from burst.runner.agent.hardware.sampling import Meter, Recorder
from burst.runner.agent.preparing.preparation import Work
from burst.runner.agent.site import Site

log = logging.getLogger(__name__)


class Reporting:
    """Two threads beside an attempt; neither can hold it up."""

    def __init__(self, site: Site, work: Work, folder: Path, secrets: tuple[str, ...]) -> None:
        allocation, settings = work.allocation, site.settings
        node_rank = nodes_of(allocation).index(site.node.id)
        shipper = Shipper(
            site.ws.blobs,
            folder,
            allocation.trial,
            allocation.attempt,
            secrets,
            node_rank=node_rank,
            clock=site.clock,
        )
        self._logs = ShippingThread(shipper, settings.ship_every)
        self._meter = Meter(work.slots, site.clock)
        self._recorder = Recorder(
            site.ws.store,
            site.clock,
            allocation.trial,
            allocation.attempt,
            allocation.token,
            node_rank=node_rank,
        )
        self._every = settings.sample_every
        self._closed = threading.Event()
        self._sampler = threading.Thread(target=self._sample, name="hardware", daemon=True)

    def start(self) -> None:
        self._logs.start()

    def watch(self, pid: int) -> None:
        """Sample the hardware from now on, with the processes below `pid`."""
        self._meter.watch(pid)
        self._sampler.start()

    def finish(self, seconds: float) -> bool:
        """Nothing is written any more: ship the rest; whether that is done within `seconds`."""
        self._closed.set()
        return self._logs.finish(seconds)

    def abandon(self) -> None:
        self._logs.abandon()

    def _sample(self) -> None:
        while not self._closed.wait(self._every):
            try:
                self._recorder.add(self._meter.sample())
            except Exception:  # a sample is never worth an attempt
                log.exception("sampling the hardware")
        self._recorder.flush()
