"""Benchmarks: ``python -m tests.bench``. They print figures and ratios, measured side by side in one run, and assert nothing."""
