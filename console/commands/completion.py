"""``console completion``: the shell completion script."""

from __future__ import annotations

import click

from console.errors import ConsoleError

VARIABLE = "_CONSOLE_COMPLETE"
HOW = {
    "bash": 'eval "$(console completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(console completion zsh)" in ~/.zshrc, after compinit',
    "fish": "console completion fish > ~/.config/fish/completions/console.fish",
}


@click.command("completion")
@click.argument("shell", type=click.Choice(list(HOW)))
def command(shell: str) -> None:
    """Print the completion script for SHELL.

    \b
      eval "$(console completion bash)"                     in ~/.bashrc
      eval "$(console completion zsh)"                      in ~/.zshrc, after compinit
      console completion fish > ~/.config/fish/completions/console.fish
    """  # noqa: D301 - \b is click's mark for lines that are not joined
    from click.shell_completion import get_completion_class

    from console.cli import cli

    made_by = get_completion_class(shell)
    if made_by is None:
        raise ConsoleError(f"no completion for {shell}")
    script = made_by(cli, {}, "console", VARIABLE)
    click.echo(script.source_template % script.source_vars())
