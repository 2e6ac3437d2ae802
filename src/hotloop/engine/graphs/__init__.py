"""CUDA graphs of the engine's steps: recorded once for each shape, then replayed."""
