"""A small Llama from random weights learns from Python's language reference.

A script for `transformers.Trainer` as it is anywhere, with its arguments by `HfArgumentParser`;
`python train.py` runs it without burst, `python train.py --help` tells what may be set.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from texts import blocks, reference, tokenizer_of
from transformers import (
    HfArgumentParser,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerBase,
    Trainer,
    TrainingArguments,
    default_data_collator,
    set_seed,
)


@dataclass
class ModelArguments:
    layers: int = 2
    width: int = 64
    context: int = 128


@dataclass
class Arguments(TrainingArguments):
    """The Trainer's own, with what suits this model."""

    output_dir: str = "output"
    learning_rate: float = 1e-2
    lr_scheduler_type: str = "cosine"
    warmup_steps: float = 20
    num_train_epochs: float = 2
    per_device_train_batch_size: int = 8
    per_device_eval_batch_size: int = 32
    gradient_accumulation_steps: int = 2
    logging_steps: float = 10
    eval_strategy: str = "steps"
    eval_steps: float = 50
    save_steps: float = 50
    save_total_limit: int = 1
    report_to: str = "none"


def small_llama(tokenizer: PreTrainedTokenizerBase, options: ModelArguments) -> LlamaForCausalLM:
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=options.width,
            intermediate_size=3 * options.width,
            num_hidden_layers=options.layers,
            num_attention_heads=4,
            max_position_embeddings=options.context,
            initializer_range=0.08,
            attention_dropout=0.1,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )
    )


def main() -> None:
    parser = HfArgumentParser((ModelArguments, Arguments))
    options, args = parser.parse_args_into_dataclasses()
    set_seed(args.seed)

    texts = reference()
    tokenizer = tokenizer_of(texts["train"]["text"])
    rows = blocks(texts, tokenizer, options.context)
    trainer = Trainer(
        model=small_llama(tokenizer, options),
        args=args,
        train_dataset=rows["train"],
        eval_dataset=rows["validation"],
        processing_class=tokenizer,
        data_collator=default_data_collator,
    )
    trainer.train()
    trainer.save_model()
    trainer.save_state()
    print(f"perplexity {math.exp(trainer.evaluate()['eval_loss']):.1f}")


if __name__ == "__main__":
    main()
