"""One process's server: moto patched, the machines' clouds, and the port they share."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from email.utils import formatdate
from pathlib import Path
from typing import Any

from burst.runner.rehearsal.ec2.app import App
from burst.runner.rehearsal.ec2.cloud import Cloud
from burst.runner.rehearsal.ec2.events import EventBridge, Nobody
from burst.runner.rehearsal.ec2.machine import Machine
from burst.runner.rehearsal.ec2.settings import Settings
from burst.runner.rehearsal.imds import CREDENTIALS

_HOST = "127.0.0.1"
_PATIENT = {"AWS_METADATA_SERVICE_TIMEOUT": "10", "AWS_METADATA_SERVICE_NUM_ATTEMPTS": "3"}
"""botocore gives a real service one second and one try; this one runs beside all its machines."""


class Server:
    """At most one a process: moto's state is the process's."""

    def __init__(
        self,
        folder: Path,
        port: int,
        variables: Mapping[str, str],
        *,
        boot: float,
        events: str = "",
    ) -> None:
        """Binds the port, which answers from `start` on.

        Args:
            folder: for the machines' disks.
            variables: of every machine, beside those that name this server.
            boot: seconds from launch until a machine runs.
            events: URL of the server that has the account's event bus; empty tells nobody.

        Raises:
            OSError: the port is taken.
        """
        from moto.moto_server.werkzeug_app import (
            DomainDispatcherApplication,
            MotoRequestHandler,
            create_backend_app,
        )
        from werkzeug.serving import make_server

        from burst.runner.rehearsal.ec2.patched.install import install

        class Handler(MotoRequestHandler):
            def log_request(self, *_: Any) -> None:
                """Nothing: a rehearsal asks thousands of times."""

            def date_time_string(self, timestamp: float | None = None) -> str:
                """By EC2's clock."""
                return formatdate(timestamp or cloud.clock.now() + settings.skew, usegmt=True)

        settings = Settings(boot=boot)
        self._variables = dict(variables)
        aws = DomainDispatcherApplication(create_backend_app)
        self._http = make_server(_HOST, port, self._late, threaded=True, request_handler=Handler)
        self.url = f"http://{_HOST}:{self._http.server_port}"
        bus = EventBridge(events) if events else Nobody()
        cloud = Cloud(folder / "machines", self._environ, self.url, bus=bus, settings=settings)
        install(cloud)
        self.cloud = cloud
        self._app = App(cloud, aws)
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End every machine, then the server. Returns when nothing runs."""
        self.cloud.close()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def _late(self, environ: dict[str, Any], start: Any) -> Any:
        return self._app(environ, start)

    def _environ(self, machine: Machine) -> Mapping[str, str]:
        return {
            **({} if machine.role else CREDENTIALS),  # a role's keys are in the metadata alone
            **_PATIENT,
            **self._variables,
            "AWS_ENDPOINT_URL_EC2": self.url,
            "AWS_ENDPOINT_URL_SSM": self.url,
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": f"{self.url}/_imds/{machine.id}",
        }
