"""Experiments: many runs as one question. A cell is a run; cells run side by side, and each leaves a row.

Nothing is imported here: the command line answers before torch is there.
"""
