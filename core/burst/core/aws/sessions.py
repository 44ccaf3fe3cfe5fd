"""Sessions of boto3's that share what botocore knows of services.

A session of boto3's own reads botocore's tables of services, regions and endpoints anew, which
takes longer than all else that a client needs. Here they are read once in a process.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

_lock = threading.Lock()


def aws_session(*, profile: str | None = None, **settings: Any) -> Any:
    """A session of boto3's. Sends no request.

    Args:
        profile: of the user's files; by default the one that the environment names.
        settings: as `boto3.Session` takes them: keys, region_name.

    Raises:
        BotoCoreError: the user's files are wrong.
    """
    from boto3.session import Session
    from botocore.session import Session as Core

    core = Core(profile=profile)
    models = _models(core.get_config_variable("data_path"))
    core.register_component("data_loader", models)
    with _lock:
        session = Session(**settings, botocore_session=core)
        # Each adds boto3's own folder to those that are searched.
        models.search_paths[:] = dict.fromkeys(models.search_paths)
    return session


@cache
def _models(folders: str | None) -> Any:
    """botocore's tables; that of EC2 alone takes a third of a second."""
    from botocore.loaders import create_loader

    return create_loader(folders)
