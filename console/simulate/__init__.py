"""The simulated rig: an engine that speaks SGLang's routes, log and probe feed, and GPUs behind the sampler's interface.

``python -m console.simulate`` takes SGLang's own flags and behaves like ``python -m sglang.launch_server`` on a box of
eight GPUs. It is what ``console demo`` runs and what tests break on purpose; everything it says carries the word
SIMULATED.
"""

VERSION = "0.5.23"
"""The SGLang whose routes, log lines and metric names are spoken."""
