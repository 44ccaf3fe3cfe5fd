"""burst packed for machines that have none of it: the function that is the runner, and the nodes.

A bundle is a zip file of burst and of what it needs, in the very versions that are installed here,
for one Python and one kind of processor. The same burst gives the same bytes, wherever and
whenever it is packed, so that a cluster that is brought up again changes nothing.
"""

from burst.infra.bundle.build import build_bundle

__all__ = ["build_bundle"]
