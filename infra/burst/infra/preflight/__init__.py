"""What is looked at before anything is made: may it be, can it be, what will it cost."""

from burst.infra.preflight.gathering import gather

__all__ = ["gather"]
