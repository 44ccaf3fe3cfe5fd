"""Pulumi programs that run in the process of the double itself, by the SDK's own means."""

from __future__ import annotations

import asyncio
import contextvars
import runpy
import sys
import traceback
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

Program = Callable[[], object]


def main_of(folder: Path) -> Program:
    """The program that a project's folder holds."""

    def main() -> None:
        sys.path.insert(0, str(folder))
        runpy.run_path(str(folder / "__main__.py"), run_name="__main__")

    return main


def run_here(program: Program, request: Any) -> str:
    """Run it to its end, as the Automation API's server does; what went wrong, if anything did.

    Args:
        request: the message `RunRequest`.
    """
    return contextvars.copy_context().run(_run, program, request)


def _run(program: Program, request: Any) -> str:
    from pulumi import log
    from pulumi.errors import RunError
    from pulumi.runtime import reset_options, run_in_stack, set_all_config

    reset_options(
        project=request.project,
        stack=request.stack,
        parallel=request.parallel,
        engine_address=request.args[0],
        monitor_address=request.monitor_address,
        preview=request.dryRun,
        organization=request.organization,
    )
    set_all_config(dict(request.config), list(request.configSecretKeys))
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda loop, context: None)  # of tasks that nobody waits for now
    try:
        loop.run_until_complete(run_in_stack(_quiet(program)))
        return ""
    except RunError as error:
        told = str(error)
    except Exception as error:
        told = f"python inline source runtime error: {error}\n{traceback.format_exc()}"
    finally:
        _wind_up(loop)
    log.error(told)
    return told


def _quiet(program: Program) -> Callable[[], None]:
    """What it gives back is nothing to wait for."""

    def run() -> None:
        program()

    return run


def _wind_up(loop: asyncio.AbstractEventLoop) -> None:
    """End all that is still waiting for something."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(_ended(tasks))
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


async def _ended(tasks: Collection[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
