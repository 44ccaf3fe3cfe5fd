"""What the core API's checkpoints take, and what they refuse in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from burst.core.errors import UsageError
from burst.harness.core_checkpoint import counted_batches


@pytest.mark.parametrize("value", [0, 7, np.int64(7), torch.tensor(7)])
def test_a_number_of_batches_is_any_whole_number(value: Any) -> None:
    assert counted_batches(value) == int(value)


@pytest.mark.parametrize("value", [-1, "3", True, 2**70, 1.5, None, float("nan"), [1]])
def test_what_is_no_number_of_batches_is_refused(value: Any) -> None:
    with pytest.raises(UsageError, match="is no number of batches"):
        counted_batches(value)
