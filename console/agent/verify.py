"""Does an engine run what was asked for? Its own word against the launch."""

from __future__ import annotations

from typing import Any

from console.agent.prepare import Prepared
from console.engine import server_info
from console.errors import ConsoleError


async def differences(client: Any, prepared: Prepared) -> str:
    """What the engine says of itself that is not what was launched.

    Args:
        client: HTTP client of the engine, not entered yet.
        prepared: what was launched.

    Returns:
        One line; empty when all is as it should be, or when the engine does not say.
    """
    try:
        async with client:
            facts = server_info.parse(await client.server_info())
    except ConsoleError:
        return ""
    if not facts.version and not facts.model:
        return ""
    launch, spec = prepared.launch, prepared.profile.speculation
    wanted = [
        ("drafter", spec.drafter if spec.algorithm else "", facts.drafter),
        ("depth at launch", launch.depth if spec.algorithm else None, facts.depth_launch),
    ]
    wrong = [f"{what} {has or 'none'} instead of {want or 'none'}" for what, want, has in wanted if _differ(want, has)]
    return f"the engine says otherwise: {', '.join(wrong)}" if wrong else ""


def _differ(want: object, has: object) -> bool:
    return want != has and (want is not None or has is not None) and not (want is None and isinstance(has, int))
