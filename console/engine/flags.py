"""SGLang's command-line flags as words: which one a word is, by any of its spellings, and which spelling a version wants."""

from __future__ import annotations

from collections.abc import Sequence

from console.engine.secrets import is_secret_name

ALIASES = {
    "--model": "--model-path",
    "--tp": "--tp-size",
    "--tensor-parallel-size": "--tp-size",
    "--dp": "--dp-size",
    "--data-parallel-size": "--dp-size",
    "--speculative-draft-model": "--speculative-draft-model-path",
}
PER_PHASE_GRAPHS_SINCE = (0, 5, 17)
"""From here ``--cuda-graph-max-bs-decode`` is known; until 0.5.18 the older spelling is too, with a warning."""
GRAPH_SPELLINGS = (("--cuda-graph-max-bs", "--cuda-graph-max-bs-decode"), ("--cuda-graph-bs", "--cuda-graph-bs-decode"))


def canonical(word: str) -> str:
    """The flag in a word, by SGLang's first spelling, without ``=value``; empty for a word that is no flag."""
    if not word.startswith("--"):
        return ""
    name = word.partition("=")[0].replace("_", "-")
    return ALIASES.get(name, name)


def values(words: Sequence[str]) -> dict[str, str]:
    """Flags and their (last) values; a flag without one has an empty value."""
    found: dict[str, str] = {}
    for position, word in enumerate(words):
        name = canonical(word)
        if not name:
            continue
        after = words[position + 1] if position + 1 < len(words) else ""
        found[name] = word.partition("=")[2] if "=" in word else ("" if after.startswith("--") else after)
    return found


def spelled(words: Sequence[str], version: tuple[int, ...] | None) -> tuple[list[str], list[str]]:
    """The words with the CUDA-graph flags as this version spells them; an unknown version is taken for a new one.

    Returns:
        The words, and a warning for each that was changed.
    """
    newer = version is None or version >= PER_PHASE_GRAPHS_SINCE
    change = dict(GRAPH_SPELLINGS) if newer else {new: old for old, new in GRAPH_SPELLINGS}
    out: list[str] = []
    warnings: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        wanted = change.get(name)
        if wanted is None:
            out.append(word)
            continue
        out.append(f"{wanted}{equals}{value}")
        warnings.append(f"{name} is written {wanted} for this version of SGLang")
    return out, warnings


def without_secrets(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The words without secret options, and those options with their values."""
    out: list[str] = []
    secrets: dict[str, str] = {}
    skip = False
    for position, word in enumerate(words):
        if skip:
            skip = False
            continue
        name, equals, value = word.partition("=")
        if not (word.startswith("--") and is_secret_name(name)):
            out.append(word)
            continue
        following = words[position + 1] if position + 1 < len(words) else ""
        if not equals and following and not following.startswith("--"):
            value, skip = following, True
        secrets[name.removeprefix("--")] = value
    return out, secrets
