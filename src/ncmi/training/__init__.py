"""Training: a typed config, one module of network and loss, a loop to read from top to bottom, and a folder for each run.

Nothing is imported here: the command line reads configs without waiting for torch.
"""
