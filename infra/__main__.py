"""`pulumi up` in this folder: what `burst up` does, without its checks and questions.

The cluster file is `burst.yaml` in the folder above, or what `pulumi config set burst:file` says.
"""

from __future__ import annotations

import os
from pathlib import Path

import pulumi

from burst.core.workspace import home_of
from burst.infra.planning import settings_of
from burst.infra.program import build

_file = Path(pulumi.Config("burst").get("file") or "../burst.yaml")
_settings = settings_of(_file, home_of(os.environ) / "bundles", os.environ)
for _name, _value in build(_settings).items():
    pulumi.export(_name, _value)
