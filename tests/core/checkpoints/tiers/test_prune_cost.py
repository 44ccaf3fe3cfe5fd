"""What tidying costs a slow tier: nothing where nothing has changed, and little where it has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from burst.core.blobs import open_blobs
from burst.core.checkpoints.removal.delete import delete, restorable
from burst.core.launch import Tier
from burst.core.length import Length
from burst.core.model import Checkpoint
from burst.core.testing.fault_proxy import FaultProxy, fault_proxy
from tests.core.blobs.mock_s3 import BUCKET, mock_s3
from tests.core.checkpoints.tiers.tier_lab import TierLab, keys_of, stored


@pytest.fixture(scope="module")
def proxied() -> Iterator[FaultProxy]:
    with mock_s3() as url, fault_proxy(url) as proxy:
        yield proxy


def requests(proxy: FaultProxy) -> Counter[str]:
    """What S3 was asked since the last call, by method; a LIST is told from a GET."""
    with proxy.lock:
        seen, proxy.seen[:] = list(proxy.seen), []
    words = [line.split(" ", 1) for line in seen]
    return Counter("LIST" if "list-type" in path else method for method, path in words)


def needless(records: list[Checkpoint]) -> list[Checkpoint]:
    """All but the newest four, and the newest four that outlive the node."""
    there = restorable(records)
    lasting = [record for record in there if record.durable]
    return [record for record in there if record not in (*there[:4], *lasting[:4])]


def test_a_save_that_changes_nothing_on_s3_asks_it_nothing(
    lab: TierLab, proxied: FaultProxy, tmp_path: Path
) -> None:
    given = [
        Tier(url=f"file://{tmp_path}/local", shared=False, keep=2),
        Tier(
            url=f"s3://{BUCKET}/cost?endpoint_url={proxied.url}",
            every=Length.model_validate("100ba"),
            keep=3,
        ),
    ]
    s3 = open_blobs(given[1].url)
    tiers = lab.tiers(given)
    quiet: Counter[str] = Counter()
    moved: Counter[str] = Counter()
    saved = []
    for batches in range(10, 610, 10):
        saved.append(lab.save(tiers, batches))
        for record in needless(lab.records()):  # what retention does meanwhile, elsewhere
            delete(s3, lab.store, record)
        requests(proxied)
        tiers.prune(lab.store, lab.fence)
        asked = requests(proxied)
        if batches > 400 and lab.record(saved[-1]).durable:
            moved += asked
        elif batches > 400:
            quiet += asked
    assert quiet == Counter()
    assert moved["GET"] == 0
    assert moved["LIST"] <= 2  # one for each copy that something else had to go for
    assert moved["HEAD"] <= 2 * moved["LIST"]
    lasting = [each for each in saved if each.id in {r.id for r in there(lab) if r.durable}]
    assert stored(given[1].url) == set().union(*map(keys_of, lasting))
    assert len(stored(given[0].url)) < 5 * len(keys_of(saved[0]))


def there(lab: TierLab) -> list[Checkpoint]:
    return [record for record in lab.records() if record.deleted is None]
