"""What the hub's answers mean to an operator, one line each. No token, no address with a token, ever stands in one."""

from __future__ import annotations

from console.errors import ConsoleError, ExitCode


def gated(what: str, *, has_token: bool, status: int | None) -> ConsoleError:
    """The repository exists and asks for a licence to be accepted."""
    if not has_token or status == 401:
        return ConsoleError(
            f"{what} is gated and no valid token was sent",
            why="its owner wants to know who downloads it",
            todo="accept its terms on the hub, then set HF_TOKEN or run `hf auth login`",
        )
    return ConsoleError(
        f"{what} is gated and your token has no access",
        why="its terms were not accepted by this account, or the request is pending",
        todo="accept them on the repository's page",
    )


def not_found(what: str, *, has_token: bool) -> ConsoleError:
    """The hub does not tell a private repository from none."""
    return ConsoleError(
        f"{what} was not found",
        why="there is no such repository" + ("" if has_token else ", or it is private and no token was sent"),
        todo="check the spelling" + ("" if has_token else ", or set HF_TOKEN"),
    )


def status(what: str, code: int) -> ConsoleError:
    """Any other HTTP status."""
    reasons = {
        401: ("the token is not valid", "set a valid HF_TOKEN"),
        403: ("access is forbidden", "check the token's permissions"),
        416: ("the file on the hub is shorter than the part already here", "remove the partial file and pull again"),
        429: ("too many requests", "wait a minute"),
    }
    why, todo = reasons.get(code, ("the hub is in trouble" if code >= 500 else "", "try again later"))
    return ConsoleError(f"the hub answered {code} for {what}", why=why, todo=todo, code=ExitCode.UNREACHABLE)


def unreachable(what: str, error: Exception) -> ConsoleError:
    """No answer at all."""
    reason = type(error).__name__
    return ConsoleError(
        f"cannot reach the hub for {what}",
        why=f"{reason}: no connection or no answer in time",
        todo="check the network and HF_ENDPOINT",
        code=ExitCode.UNREACHABLE,
    )
