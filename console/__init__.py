"""The SGLang speculation console: everything but the widgets."""

__version__ = "0.1.0"
