"""The daemon that owns the engine, and its client."""
