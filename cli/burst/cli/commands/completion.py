"""`burst completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash:  eval "$(burst completion bash)"          in ~/.bashrc
    zsh:   eval "$(burst completion zsh)"           in ~/.zshrc
    fish:  burst completion fish | source           in ~/.config/fish/config.fish
    """
    from burst.cli.root import cli

    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(f"There is no completion for {shell}.")
    click.echo(made(cli, {}, "burst", "_BURST_COMPLETE").source())
