"""What a GPU is asked in three calls: see benchmarks/gpu/__main__.py."""
