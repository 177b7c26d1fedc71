"""Drafter checkpoints: catalogue, headers, verdict, hub, download."""
