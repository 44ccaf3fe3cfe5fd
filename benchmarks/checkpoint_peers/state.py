"""The state that is saved: a GPT-2 from random weights and its AdamW, 1.3 GB in 592 tensors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import torch
import transformers

LAYERS = 12
WIDTH = 768
VOCABULARY = 32_000
TOKENS = 64


class Training:
    """A model in training, a batch of one row at a time."""

    def __init__(
        self, layers: int = LAYERS, trained: Callable[[str], bool] = lambda name: True
    ) -> None:
        """`trained` says by a parameter's name whether it is; the others are frozen."""
        config = transformers.GPT2Config(
            n_layer=layers,
            n_embd=WIDTH,
            n_head=12,
            n_positions=256,
            vocab_size=VOCABULARY,
            bos_token_id=0,
            eos_token_id=0,
        )
        self.model = transformers.GPT2LMHeadModel(config)
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_(trained(name))
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(parameters, lr=1e-4, fused=True)
        self._rows = torch.randint(0, VOCABULARY, (1, TOKENS))

    def step(self) -> float:
        """Train on one batch; returns the seconds that it took."""
        begun = time.perf_counter()
        self.model(input_ids=self._rows, labels=self._rows).loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return time.perf_counter() - begun

    def change(self) -> None:
        """Change every tensor, in a fraction of a step's time, so that nothing saved before can
        be used again."""
        with torch.no_grad():
            torch._foreach_mul_(list(self.tensors().values()), 1.001)

    def tensors(self) -> dict[str, torch.Tensor]:
        """All tensors by name, those that share memory once."""
        named: list[tuple[str, torch.Tensor]] = list(self.model.state_dict().items())
        for number, state in self.optimizer.state_dict()["state"].items():
            named += [(f"{number}.{name}", tensor) for name, tensor in state.items()]
        once = {tensor.data_ptr(): (name, tensor) for name, tensor in reversed(named)}
        return dict(reversed(once.values()))

    @property
    def bytes(self) -> int:
        return bytes_of(self.tensors().values())


def bytes_of(tensors: Iterable[torch.Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors)
