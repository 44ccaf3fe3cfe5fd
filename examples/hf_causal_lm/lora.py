"""Teaches a language model to write Python by low-rank adapters (LoRA); its own weights stay.

A script for `transformers.Trainer` and `peft` as it is anywhere. The model is any folder with one:

    python train.py --output_dir base
    python lora.py --model_name_or_path base

Without one it is that of train.py as it begins, made of random weights.
"""

from __future__ import annotations

from dataclasses import dataclass

from peft import LoraConfig, TaskType, get_peft_model
from texts import blocks, reference, sources, tokenizer_of
from train import Arguments, ModelArguments, small_llama
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    HfArgumentParser,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Trainer,
    default_data_collator,
    set_seed,
)


@dataclass
class LoraArguments:
    model_name_or_path: str = ""
    rank: int = 8
    alpha: int = 16
    dropout: float = 0.05


def base_model(path: str) -> tuple[PreTrainedTokenizerBase, PreTrainedModel]:
    if path:
        return AutoTokenizer.from_pretrained(path), AutoModelForCausalLM.from_pretrained(path)
    tokenizer = tokenizer_of(reference()["train"]["text"])
    return tokenizer, small_llama(tokenizer, ModelArguments())


def main() -> None:
    parser = HfArgumentParser((LoraArguments, Arguments))
    options, args = parser.parse_args_into_dataclasses()
    set_seed(args.seed)

    tokenizer, base = base_model(options.model_name_or_path)
    rows = blocks(sources(), tokenizer, base.config.max_position_embeddings)
    adapted = LoraConfig(
        task_type=TaskType.CAUSAL_LM,
        r=options.rank,
        lora_alpha=options.alpha,
        lora_dropout=options.dropout,
        target_modules="all-linear",
    )
    model = get_peft_model(base, adapted)
    model.print_trainable_parameters()
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=rows["train"],
        eval_dataset=rows["validation"],
        processing_class=tokenizer,
        data_collator=default_data_collator,
    )
    trainer.train()
    trainer.save_model()
    trainer.save_state()


if __name__ == "__main__":
    main()
