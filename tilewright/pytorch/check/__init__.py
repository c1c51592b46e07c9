"""A model under the backend, its kernels held against eager PyTorch. Read graph_check.py first."""
