"""A hub repository read by range requests: file list, config, headers; nothing else is downloaded.

huggingface_hub is imported here only, and it brings the endpoint (HF_ENDPOINT), token and offline mode of the operator's
environment. A token is never printed: messages are built here, not taken from the library.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from console.drafters.header import UnreadableError
from console.drafters.source import COMMIT, File
from console.errors import ConsoleError, ExitCode

FIRST_BYTES = 12 << 10
"""One request reaches the whole header of a drafter; a longer one costs a second."""
TIMEOUT_S = 10.0


def hub_error(error: Exception, repository: str, revision: str = "") -> ConsoleError:
    """One line for what the hub answered: no token, licence not accepted, not found, no such revision, unreachable."""
    from huggingface_hub import errors

    from console.drafters import hub_messages

    what = f"{repository}@{revision}" if revision else repository
    response = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    if isinstance(error, errors.GatedRepoError):
        return hub_messages.gated(what, has_token=_has_token(), status=status)
    if isinstance(error, errors.RevisionNotFoundError):
        return ConsoleError(f"{repository} has no revision {revision!r}", todo="see its branches and tags on the hub")
    if isinstance(error, errors.RepositoryNotFoundError):
        return hub_messages.not_found(what, has_token=_has_token())
    if isinstance(error, errors.EntryNotFoundError):
        return ConsoleError(f"{what} does not hold that file", code=ExitCode.FAILED)
    if isinstance(error, errors.OfflineModeIsEnabled):
        return ConsoleError(
            f"cannot ask the hub about {what}", why="HF_HUB_OFFLINE is set", todo="unset it", code=ExitCode.UNREACHABLE
        )
    if status is not None:
        return hub_messages.status(what, status)
    return hub_messages.unreachable(what, error)


def _has_token() -> bool:
    from huggingface_hub import get_token

    return bool(get_token())


class HubCheckpoint:
    """A repository at one revision."""

    def __init__(self, repository: str, revision: str = "") -> None:
        self.repository = repository
        self.path: Path | None = None
        self.label = f"{repository}@{revision}" if revision else repository
        info = self._info(revision)
        self.revision = str(info.sha or "")
        self.pinned = bool(COMMIT.fullmatch(revision))
        self.files = tuple(
            File(item.rfilename, item.size, item.lfs.sha256 if item.lfs else "") for item in info.siblings or ()
        )
        card: Any = info.card_data or {}
        self._base: Any = card.get("base_model")
        self.licence = str(card.get("license") or "")
        self.bytes_read = 0

    def _info(self, revision: str) -> Any:
        from huggingface_hub import HfApi

        try:
            return HfApi().model_info(
                self.repository, revision=revision or None, files_metadata=True, timeout=TIMEOUT_S
            )
        except Exception as error:  # noqa: BLE001 - the HTTP library differs by version; every failure becomes one line
            raise hub_error(error, self.repository, revision) from None

    def read(self, name: str, offset: int, length: int) -> bytes:
        """A range of a file.

        Raises:
            UnreadableError: the server does not serve ranges, or sends something else than what was asked for.
            ConsoleError: the hub says no.
        """
        from huggingface_hub import hf_hub_url
        from huggingface_hub.utils import (  # type: ignore[attr-defined]
            build_hf_headers,
            get_session,
            hf_raise_for_status,
        )

        if length <= 0:
            return b""
        if offset == 0 and name.endswith(".safetensors"):
            length = max(length, FIRST_BYTES)
        url = hf_hub_url(self.repository, name, revision=self.revision or None)
        headers = {**build_hf_headers(), "range": f"bytes={offset}-{offset + length - 1}"}
        data = bytearray()
        try:
            with get_session().stream(
                "GET", url, headers=headers, timeout=TIMEOUT_S, follow_redirects=True
            ) as response:
                hf_raise_for_status(response)
                for piece in response.iter_bytes():
                    data += piece
                    if len(data) > length:
                        break
                whole = response.status_code == 200 and offset > 0
        except Exception as error:  # noqa: BLE001 - the HTTP library differs by version; every failure becomes one line
            raise hub_error(error, self.repository, self.revision) from None
        if whole:
            raise UnreadableError("no-ranges", "the server does not serve parts of files")
        self.bytes_read += len(data)
        return bytes(data[:length])

    def base_models(self) -> tuple[str, ...]:
        """``base_model`` of the card, as the hub parsed it."""
        names = self._base if isinstance(self._base, list) else [self._base]
        return tuple(str(name)[:200] for name in names if name)
