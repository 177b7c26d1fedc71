"""Tuning profiles: what to launch, how to speculate, what it should reach."""
