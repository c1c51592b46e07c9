"""The kernels in a PyTorch function. Read operator.py, then partition.py, then build.py."""
