"""The store for unit tests keeps the whole contract, within one process."""

from __future__ import annotations

import pytest

from burst.core.model import Trial
from burst.core.store import open_store
from burst.core.store.memory import MemoryStore
from burst.core.store.port import Put
from burst.core.testing import examples
from burst.core.testing.store_contract import StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()


def test_the_url_opens_the_same_store_in_this_process() -> None:
    store = open_store("memory:")
    store.commit(Put(examples.trial()))
    assert open_store(store.url).find(Trial, examples.TRIAL) is not None


def test_stores_without_a_name_share_nothing() -> None:
    store = open_store("memory:")
    store.commit(Put(examples.trial()))
    assert open_store("memory:").find(Trial, examples.TRIAL) is None
