"""Scripts around `transformers.Trainer`: attached by the launcher, without a change to them."""
