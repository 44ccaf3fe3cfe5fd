"""The server: `python -m burst.runner.rehearsal.ec2 --folder DIR`.

Writes its URL to `DIR/url` once it answers. Ends on SIGTERM, and with it every machine; the
machines end too if it is killed.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from pathlib import Path

from burst.runner.rehearsal.extra import check_extra


def main(argv: list[str] | None = None) -> int:
    arguments = _arguments(argv)
    check_extra()
    from burst.runner.rehearsal.ec2.images import write_images

    folder: Path = arguments.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    write_images(folder / "images.json")
    # moto reads these when it is imported, so they come before.
    os.environ.update(
        MOTO_AMIS_PATH=str(folder / "images.json"),
        MOTO_IAM_LOAD_MANAGED_POLICIES="false",
        MOTO_DISABLE_GLOBAL_CORS="true",
    )
    from burst.runner.rehearsal.ec2.server import Server

    variables = dict(each.split("=", 1) for each in arguments.machine_environ)
    server = Server(
        folder, arguments.port, variables, boot=arguments.boot, events=arguments.events
    )
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    server.start()
    _write_whole(folder / "url", server.url)
    ended.wait()
    server.close()
    return 0


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m burst.runner.rehearsal.ec2")
    parser.add_argument("--folder", type=Path, required=True, help="where the machines' disks are")
    parser.add_argument("--port", type=int, default=0, help="on 127.0.0.1; 0 is any that is free")
    parser.add_argument("--boot", type=float, default=1.0, help="seconds until a machine runs")
    parser.add_argument(
        "--machine-environ",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="what machines have in their environment, such as AWS_ENDPOINT_URL of other servers",
    )
    parser.add_argument(
        "--events",
        default="",
        metavar="URL",
        help="of the server that has the account's event bus and functions; by default EC2's "
        "events reach nobody",
    )
    return parser.parse_args(argv)


def _write_whole(path: Path, text: str) -> None:
    part = path.with_suffix(".part")
    part.write_text(text)
    part.replace(path)


if __name__ == "__main__":
    sys.exit(main())
