"""Reconcile: compare what is wanted with what is, and act, as often as anyone likes."""

from __future__ import annotations

from burst.runner.reconcile.context import Context, make_context
from burst.runner.reconcile.reconcile import reconcile

__all__ = ["Context", "make_context", "reconcile"]
