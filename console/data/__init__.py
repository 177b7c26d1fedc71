"""Data files shipped with the console."""
