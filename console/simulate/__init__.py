"""The simulated rig: an engine process with the real routes, and GPUs behind the sampler."""
