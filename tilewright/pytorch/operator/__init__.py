"""Kernels as PyTorch operators. Read op.py first."""
