"""Reports: they read the files of run folders, never a live model."""
