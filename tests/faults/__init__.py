"""A suite that kills, stops, fills, hangs and garbles each part of the simulated rig: ``python -m tests.faults``."""
