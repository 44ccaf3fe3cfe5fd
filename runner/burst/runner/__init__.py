"""Deciding and acting: searchers, the plan, pools, the agent and the reconcile loop."""
