"""Text on its way to a model: found where it lies, tokenised once, packed, and looked at for rows
that would spoil a run.

Its parts are used through `burst.harness.data`: `load`, `tokenized`, `pack`, `checked`.
"""
