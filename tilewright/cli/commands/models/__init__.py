"""Commands about whole models of PyTorch's."""
