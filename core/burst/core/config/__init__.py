"""The files people write: experiments and clusters, read with the place of every mistake."""
