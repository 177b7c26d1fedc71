"""Tuning profiles: schema, store, and the built-in ones. Start at :mod:`profiles.store`."""
