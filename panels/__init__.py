"""One widget a file: draws a Snapshot. No I/O, no clock, no state that is not on screen."""
