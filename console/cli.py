"""The command line: one module a command in :mod:`console.commands`, imported when it is called.

stdout is data, stderr is narration. A command raises :class:`~console.errors.ConsoleError`; here it becomes one line and an
exit code.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

from console import __version__
from console.errors import ConsoleError, ExitCode

COMMANDS: dict[str, tuple[str, str]] = {
    # name: (module, first line of its help)
    "demo": ("demo", "The console on the simulated rig: no GPU, no SGLang."),
    "attach": ("attach", "Watch a server that someone else started."),
    "run": ("run", "Launch the engine from a profile."),
    "stop": ("stop", "Stop the engine: SIGTERM, a deadline, then its own processes only."),
    "restart": ("restart", "Stop and launch the engine again with the same profile."),
    "status": ("status", "What the rig does now; --json prints the whole snapshot."),
    "depth": ("depth", "Change the speculation depth."),
    "swap": ("swap", "Swap the drafter."),
    "targets": ("targets", "Break-even and goals, from numbers or from the running rig."),
    "explain": ("explain", "Post-mortem of a saved server log."),
    "baseline": ("baseline", "Measure this rig without speculation: what every break-even rests on."),
    "calibrate": ("calibrate", "Measure cost and acceptance at each depth; the best depth per concurrency."),
    "history": ("history", "What was done to the rig and what befell it: operations, events, starts, crashes, runs."),
    "env": ("env", "The engine's environment: asked for, launcher, each worker, and where they differ."),
    "replay": ("replay", "The deck on a recorded history: seek, pause, step."),
    "export": ("export", "The recorded figures as CSV, JSON or Parquet."),
    "check": ("check", "Will this drafter fit? The verdict from config and header, before the download."),
    "pull": ("pull", "Download a drafter from the hub: resumable, proven."),
    "profiles": ("profiles", "List, show and manage tuning profiles."),
    "doctor": ("doctor", "Check this box: Python, SGLang, NVML, terminal, disk, ports."),
    "agent": ("agent", "Status, stop and logs of the rig's daemon."),
    "completion": ("completion", "Print the shell completion script."),
}
"""Help stands here too, so that ``console --help`` and completion import no command."""


class LazyGroup(click.Group):
    """A group that imports a command when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's interface
        """Names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the command's module, whose ``command`` it is."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"console.commands.{COMMANDS[cmd_name][0]}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The command list from the table."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


class RigContext:
    """What every command gets: which rig was named (``None``: the only one that runs, else ``default``)."""

    def __init__(self, rig: str | None) -> None:
        self.rig = rig


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog=(
        "Without a command: the console on this box. Exit codes: 0 good, 1 failed, 2 wrong usage, 3 nothing running, "
        "4 the answer is no."
    ),
)
@click.option(
    "--rig", metavar="NAME", help="The rig: its own agent, engine and history. [default: the only one that runs]"
)
@click.version_option(__version__, "-V", "--version", prog_name="console")
@click.pass_context
def cli(ctx: click.Context, rig: str | None) -> None:
    """Supervise an SGLang server that decodes speculatively: is speculation paying, and what would have to change?"""
    ctx.obj = RigContext(rig)
    if ctx.invoked_subcommand is None:
        from console.commands.deck import open_console

        open_console(ctx.obj)


def main(argv: list[str] | None = None) -> Any:
    """Run the command line; one line on stderr and an exit code for every error that is ours."""
    try:
        done = cli.main(args=argv, prog_name="console", standalone_mode=False)
        if isinstance(done, int) and done:  # click hands the code of ctx.exit() back instead of raising it
            sys.exit(done)
    except ConsoleError as error:
        click.echo(f"console: {error.line}", err=True)
        sys.exit(error.code)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except click.Abort:
        click.echo("console: aborted", err=True)
        sys.exit(ExitCode.FAILED)
    except click.ClickException as error:
        click.echo(f"console: {_usage_line(error)}", err=True)
        sys.exit(ExitCode.USAGE)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(ExitCode.OK)


def _usage_line(error: click.ClickException) -> str:
    """Click's own errors as one line, with the place to look."""
    message = " ".join(error.format_message().split())
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"{message} - see `{context.command_path} --help`" if context is not None else message
