"""Themes: dark, light, one that every kind of colour vision tells apart, and one without colours.

``panel-<role>`` variables colour the roles of ``panels.palette``. No theme is needed to read a screen: words and
symbols say the same.
"""

from __future__ import annotations

from typing import Final

from textual.theme import BUILTIN_THEMES, Theme

DEFAULT: Final = "console-dark"
"""Used until the operator chooses another one."""
PLAIN: Final = "console-plain"
"""For NO_COLOR and terminals without colours."""

DARK = Theme(
    name=DEFAULT,
    primary="#82aaff",
    secondary="#7fdbca",
    accent="#7fdbca",
    success="#9ece6a",
    warning="#e6b455",
    error="#ff6b7f",
    foreground="#d6deeb",
    background="#10141c",
    surface="#161c27",
    panel="#1d2533",
    dark=True,
    variables={
        "panel-draft": "#e6b455",
        "panel-verify": "#82aaff",
        "panel-extend": "#7fdbca",
        "panel-gap": "#5c6b85",
        "panel-goal": "#c792ea",
        "panel-graph": "#82aaff",
        "panel-frame": "#3a4760",
        "panel-track": "#333e54",
        "footer-key-foreground": "#7fdbca",
    },
)

LIGHT = Theme(
    name="console-light",
    primary="#1f5fbf",
    secondary="#0b7a75",
    accent="#0b7a75",
    success="#2e7d32",
    warning="#9a5b00",
    error="#b3261e",
    foreground="#1b2330",
    background="#fbfaf7",
    surface="#f1efe9",
    panel="#e6e3da",
    dark=False,
    variables={
        "panel-draft": "#b36b00",
        "panel-verify": "#1f5fbf",
        "panel-extend": "#0b7a75",
        "panel-gap": "#8a93a3",
        "panel-goal": "#7b3fa0",
        "panel-graph": "#1f5fbf",
        "panel-frame": "#b9b5a9",
        "panel-track": "#d5d1c5",
    },
)

COLOUR_BLIND = Theme(
    name="console-colour-blind",
    # The palette of Okabe and Ito (https://jfly.uni-koeln.de/color/), which the common colour deficiencies tell apart.
    primary="#56b4e9",
    secondary="#009e73",
    accent="#f0e442",
    success="#56b4e9",
    warning="#e69f00",
    error="#ff7f32",
    foreground="#e8e8e8",
    background="#111111",
    surface="#1a1a1a",
    panel="#242424",
    dark=True,
    variables={
        "panel-draft": "#e69f00",
        "panel-verify": "#56b4e9",
        "panel-extend": "#f0e442",
        "panel-gap": "#777777",
        "panel-goal": "#cc79a7",
        "panel-graph": "#56b4e9",
        "panel-frame": "#4d4d4d",
        "panel-track": "#3a3a3a",
    },
)

PLAIN_THEME = Theme(
    name=PLAIN,
    ansi=True,
    primary="ansi_default",
    secondary="ansi_default",
    accent="ansi_default",
    success="ansi_default",
    warning="ansi_default",
    error="ansi_default",
    foreground="ansi_default",
    background="ansi_default",
    surface="ansi_default",
    panel="ansi_default",
    boost="ansi_default",
    dark=True,
    # What Textual's own screens need; the cursor is reversed, because colours may be filtered out altogether.
    variables={
        **BUILTIN_THEMES["ansi-dark"].variables,
        "border": "ansi_default",
        "block-cursor-text-style": "bold reverse",
        "block-cursor-foreground": "ansi_default",
        "block-cursor-background": "ansi_default",
    },
)

THEMES: Final = (DARK, LIGHT, COLOUR_BLIND, PLAIN_THEME)
"""All of them, in the order they are offered."""
