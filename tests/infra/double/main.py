"""The double of the `pulumi` command: what the Automation API asks of it, and a little more.

It is none of Pulumi's: tests put it where the real command would be, so that all else that is
Pulumi's (the SDK, the Automation API, the typed resources) runs as it is.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from tests.infra.double.arguments import Arguments, parse
from tests.infra.double.backend import Backend, Refusal, open_backend
from tests.infra.double.project import Project, StackSettings
from tests.infra.double.secrets import Crypter, passphrase
from tests.infra.double.stacks import Stack, all_stacks, stack_of
from tests.infra.double.state import Snapshot
from tests.infra.double.values import has_secret, map_values, revealed

VERSION = "v3.200.0"
"""Above 3.205.0, the SDK would want events over gRPC."""
_FAILED = 255


class Command:
    """One call."""

    def __init__(self, arguments: Arguments) -> None:
        from tests.infra.double.running import root_of

        self.arguments = arguments
        self.environ = dict(os.environ)
        self.project = Project(root_of(Path(arguments.value("--cwd") or Path.cwd())))

    @property
    def backend(self) -> Backend:
        return open_backend(self.environ.get("PULUMI_BACKEND_URL") or self.project.backend)

    def stack(self, name: str = "") -> Stack:
        """
        Raises:
            Refusal: nothing says which.
        """
        name = name or self.arguments.value("--stack") or self.environ.get("PULUMI_STACK", "")
        if not name:
            raise Refusal("no stack selected; please use `pulumi stack select` to choose one")
        return stack_of(self.backend, self.project.name, name)

    def settings(self, stack: Stack) -> StackSettings:
        return StackSettings(self.project, stack.name)

    def crypter(self, stack: Stack) -> Crypter:
        return self.settings(stack).crypter(self.environ)


def _version(_: Arguments) -> None:
    print(VERSION)


def _whoami(arguments: Arguments) -> None:
    command, user = Command(arguments), os.environ.get("USER", "root")
    told = {"user": user, "organizations": None, "url": command.backend.url}
    print(json.dumps(told) if arguments.has("--json") else user)


def _plugin(arguments: Arguments) -> None:
    """Plugins are in the double itself."""
    if arguments.words[1:2] == ["ls"]:
        print("[]")


def _help(arguments: Arguments) -> None:
    print(f"the double of `pulumi {arguments.words[0]}`: --client --run-program --event-log")


def _stack(arguments: Arguments) -> None:
    command = Command(arguments)
    what = arguments.words[1] if len(arguments.words) > 1 else "select"
    named = arguments.words[2] if len(arguments.words) > 2 else ""
    doing: dict[str, Callable[[Command, str], None]] = {
        "init": _init,
        "select": _select,
        "rm": _remove,
        "ls": _list,
        "output": _output,
        "history": _history,
        "export": _export,
        "import": _import,
    }
    if what not in doing:
        raise Refusal(f"the double of pulumi does not know `stack {what}`")
    doing[what](command, named)


def _init(command: Command, named: str) -> None:
    stack = command.stack(named)
    provider = command.arguments.value("--secrets-provider") or "passphrase"
    if provider not in ("passphrase", "default"):
        raise Refusal(f"the double of pulumi knows no secrets provider {provider}")
    passphrase(command.environ)
    stack.init()
    command.crypter(stack)
    print(f"Created stack '{stack.name}'")


def _select(command: Command, named: str) -> None:
    command.stack(named).load()


def _remove(command: Command, named: str) -> None:
    stack = command.stack(named)
    with stack.locked():
        stack.remove(force=command.arguments.has("--force"))
    if not command.arguments.has("--preserve-config"):
        command.settings(stack).remove()
    print(f"Stack '{stack.name}' has been removed!")


def _list(command: Command, _: str) -> None:
    told = [
        {
            "name": stack.name,
            "current": False,
            "updateInProgress": stack.is_locked(),
            "resourceCount": len(Snapshot.from_json(stack.load()).resources),
        }
        for stack in all_stacks(command.backend, command.project.name)
    ]
    print(json.dumps(told))


def _output(command: Command, named: str) -> None:
    stack = command.stack()
    root = stack.snapshot(command.crypter(stack)).root
    found = root.outputs if root else {}
    clear = command.arguments.has("--show-secrets")
    shown = {
        key: revealed(value) if clear or not has_secret(value) else "[secret]"
        for key, value in found.items()
    }
    print(json.dumps(shown[named] if named else shown))


def _history(command: Command, _: str) -> None:
    found = command.stack().history()
    size = int(command.arguments.value("--page-size", "0")) or len(found)
    begin = (int(command.arguments.value("--page", "1")) - 1) * size
    told = [{**each, "version": len(found) - at} for at, each in enumerate(found)][
        begin : begin + size
    ]
    if command.arguments.has("--show-secrets") and told:
        config = command.settings(command.stack()).all(command.environ)
        for each in told:
            each["config"] = {key: config.get(key, one) for key, one in each["config"].items()}
    print(json.dumps(told))


def _export(command: Command, _: str) -> None:
    stack = command.stack()
    deployment = stack.load()
    if command.arguments.has("--show-secrets"):
        crypter = command.crypter(stack)
        deployment = map_values(deployment, crypter.show)
    print(json.dumps({"version": 3, "deployment": deployment}, indent=1))


def _import(command: Command, _: str) -> None:
    stack = command.stack()
    told = json.loads(Path(command.arguments.value("--file")).read_text())
    crypter = command.crypter(stack)
    with stack.locked():
        stack.load()
        stack.replace(crypter.hide(told["deployment"]))
    print("Import complete.")


def _cancel(arguments: Arguments) -> None:
    command = Command(arguments)
    stack = command.stack(arguments.words[1] if len(arguments.words) > 1 else "")
    stack.load()
    stack.cancel()
    print(f"The currently running update for '{stack.name}' has been canceled!")


def _config(arguments: Arguments) -> None:
    command = Command(arguments)
    stack = command.stack()
    settings, environ = command.settings(stack), command.environ
    what = arguments.words[1] if len(arguments.words) > 1 else ""
    rest = arguments.words[2:]
    if what == "set":
        secret = command.crypter(stack) if arguments.has("--secret") else None
        settings.set(rest[0], rest[1], secret)
    elif what == "set-all":
        for flag in ("--plaintext", "--secret"):
            crypter = (
                command.crypter(stack) if flag == "--secret" and arguments.has(flag) else None
            )
            for pair in arguments.flags.get(flag, []):
                key, _, value = pair.partition("=")
                settings.set(key, value, crypter)
    elif what in ("rm", "rm-all"):
        for key in rest:
            settings.unset(key)
    elif what == "get":
        print(json.dumps(settings.one(rest[0], environ)))
    elif what:
        raise Refusal(f"the double of pulumi does not know `config {what}`")
    else:
        print(json.dumps(settings.all(environ)))


def _update(arguments: Arguments) -> None:
    from tests.infra.double.running import Wanted, fuse, update

    command, what = Command(arguments), arguments.words[0]
    stack = command.stack()
    dry = what == "preview" or arguments.has("--preview-only")
    wanted = Wanted(
        what,
        dry=dry,
        client=arguments.value("--client"),
        event_log=arguments.value("--event-log"),
        message=arguments.value("--message"),
        keep_going=arguments.has("--continue-on-error"),
        refresh_first=arguments.has("--refresh"),
        expect_no_changes=arguments.has("--expect-no-changes"),
        spare_protected=arguments.has("--exclude-protected"),
        clear_creates=arguments.has("--clear-pending-creates"),
        imports=arguments.values("--import-pending-creates"),
        adopt="PULUMI_DOUBLE_ADOPTS" in command.environ,
    )
    crypter = command.crypter(stack)
    config = command.settings(stack).all(command.environ)

    def go() -> bool:
        return update(wanted, command.project, stack, crypter, config, tick=fuse(command.environ))

    stack.load()
    if dry:
        went_well = go()
    else:
        with stack.locked():
            went_well = go()
    if not went_well:
        sys.exit(_FAILED)


_COMMANDS: dict[str, Callable[[Arguments], None]] = {
    "version": _version,
    "whoami": _whoami,
    "plugin": _plugin,
    "install": _plugin,
    "stack": _stack,
    "config": _config,
    "cancel": _cancel,
    "up": _update,
    "preview": _update,
    "destroy": _update,
    "refresh": _update,
}


def main() -> None:
    """Ends the process with the real command's status: 255 for whatever fails."""
    try:
        arguments = parse(sys.argv[1:])
        name = arguments.words[0] if arguments.words else ""
        if name not in _COMMANDS:
            raise Refusal(f'unknown command "{name}" for "pulumi"')
        _help(arguments) if arguments.has("--help") else _COMMANDS[name](arguments)
    except Refusal as refusal:
        print(f"error: {refusal}", file=sys.stderr)
        sys.exit(_FAILED)


if __name__ == "__main__":
    main()
