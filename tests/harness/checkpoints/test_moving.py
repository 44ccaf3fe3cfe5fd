"""Checkpoints on their way to slower tiers: failures are told, and what matters is tried again."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import torch

from burst.core.blobs import open_blobs
from burst.core.checkpoints.tiers.places import Tiers
from burst.core.errors import Unreachable
from burst.core.launch import Tier
from burst.harness.checkpoints.engine import BlobCheckpointEngine, Identity
from burst.harness.collective import Solo
from tests.harness.checkpoints.support import Lab, Patient, request


class _Share:
    """A shared folder that answers only while it is up."""

    def __init__(self, url: str) -> None:
        self._blobs = open_blobs(url)
        self.up = True

    def __getattr__(self, name: str) -> Any:
        if not self.up and name != "url":
            raise Unreachable("the share is away")
        return getattr(self._blobs, name)


def _engine(lab: Lab, share: _Share, shared_url: str) -> BlobCheckpointEngine:
    local_url = f"file://{lab.folder}"

    def opener(url: str) -> Any:
        return share if url == shared_url else open_blobs(url)

    places = [Tier(url=local_url, shared=False), Tier(url=shared_url)]
    tiers = Tiers(places, "node-1", lab.clock, opener=opener, warn=lambda _: None)
    identity = Identity(lab.experiment, lab.trial, 1, 1)
    engine = Patient(lab.store, tiers, identity, Solo(), lab.clock)
    lab.engines.append(engine)
    return engine


def _state(number: int) -> dict[str, Any]:
    return {"models": [{"w": torch.full((5,), float(number))}]}


def test_no_save_copy_or_restore_draws_from_the_generators_of_the_trial(
    lab: Lab, tmp_path: Path
) -> None:
    """They work in threads beside training, and a draw of theirs would change its next one."""

    def drawn() -> tuple[Any, ...]:
        return (
            random.getstate(),
            np.random.get_state(legacy=False)["state"]["key"].tobytes(),
            torch.get_rng_state().sum(),
        )

    url = f"file://{tmp_path / 'share'}"
    engine = _engine(lab, _Share(url), url)
    before = drawn()
    for number in (1, 2):
        large = {"models": [{"w": torch.full((300_000,), float(number))}]}
        engine.save(request(large, None, number))
        assert engine.wait(last=True)
        assert drawn() == before
    assert engine.restore() is not None
    assert drawn() == before


def test_a_validated_checkpoint_that_could_not_be_copied_is_copied_with_the_next(
    lab: Lab, tmp_path: Path
) -> None:
    url = f"file://{tmp_path / 'share'}"
    share = _Share(url)
    engine = _engine(lab, share, url)
    share.up = False
    engine.save(request(_state(1), None, 1, metrics={"loss": 0.1}))
    assert not engine.wait()
    assert "was not copied" in engine.poll()[0]
    assert [record.durable for record in lab.records()] == [False]
    share.up = True
    lab.clock.advance(60)
    engine.save(request(_state(2), None, 2))
    assert engine.wait()
    assert [record.durable for record in lab.records()] == [True, True]
    assert engine.poll() == []


def test_a_newer_checkpoint_stands_in_for_one_that_could_not_be_copied(
    lab: Lab, tmp_path: Path
) -> None:
    url = f"file://{tmp_path / 'share'}"
    share = _Share(url)
    engine = _engine(lab, share, url)
    share.up = False
    engine.save(request(_state(1), None, 1))
    share.up = True
    lab.clock.advance(60)
    engine.save(request(_state(2), None, 2))
    assert engine.wait()
    assert [record.durable for record in lab.records()] == [False, True]
